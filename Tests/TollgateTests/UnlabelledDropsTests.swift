import Gate
import Telemetry
import Testing
import Workbench

@testable import tollgate

/// The log line about routes whose filter removes elements only because they have no label.
@Suite struct UnlabelledDropsTests {
    private func rule(_ unlabelled: UnlabelledRule = .byForm) -> RouteRule {
        var rule = RouteRule(name: "r", path: "/r", isPrefix: false, target: .upstream(0), auth: .optional)
        rule.unlabelled = unlabelled
        return rule
    }

    private func notices(_ items: FilteredItems, _ unlabelled: UnlabelledRule = .byForm) -> [UInt64] {
        var drops = UnlabelledDrops(now: moment(0))
        return drops.notices(["r": items], [rule(unlabelled)], now: moment(60)).map(\.count)
    }

    @Test func aRouteThatRemovedOnlyUnlabelledElementsIsNamedWithTheirNumber() {
        #expect(notices(FilteredItems(kept: 0, dropped: 4, unlabelled: 4, droppedUnlabelled: 4)) == [4])
        // Labelled ones that a caller may see do not excuse it.
        #expect(notices(FilteredItems(kept: 9, dropped: 4, unlabelled: 4, droppedUnlabelled: 4)) == [4])
    }

    @Test func aRouteThatRemovedOneForItsLabelOrNoneIsNot() {
        #expect(notices(FilteredItems(kept: 0, dropped: 4, unlabelled: 3, droppedUnlabelled: 3)) == [])
        #expect(notices(FilteredItems(kept: 4, dropped: 0, unlabelled: 4)) == [])
        #expect(notices(FilteredItems()) == [])
    }

    @Test func whereTheRouteSaysWhatAnUnlabelledElementIsItIsNoMistake() {
        let only = FilteredItems(kept: 0, dropped: 4, unlabelled: 4, droppedUnlabelled: 4)
        let some = FilteredItems(kept: 9, dropped: 4, unlabelled: 4, droppedUnlabelled: 4)
        #expect(notices(only, .tier(Tier(rawValue: 1))) == [])
        // Unless nothing at all has the label, which looks like a misspelt field.
        #expect(notices(some, .drop) == [])
        #expect(notices(only, .drop) == [4])
    }

    @Test func aMinuteCountsAloneAndIsDueOnceAMinute() {
        var drops = UnlabelledDrops(now: moment(0))
        #expect(!drops.isDue(moment(59)))
        #expect(drops.isDue(moment(60)))
        let first = FilteredItems(kept: 0, dropped: 4, unlabelled: 4, droppedUnlabelled: 4)
        #expect(drops.notices(["r": first], [rule()], now: moment(60)).count == 1)
        #expect(!drops.isDue(moment(119)))
        #expect(drops.notices(["r": first], [rule()], now: moment(120)) == [])
        let more = FilteredItems(kept: 1, dropped: 6, unlabelled: 6, droppedUnlabelled: 6)
        #expect(drops.notices(["r": more], [rule()], now: moment(180)) == [UnlabelledDrops.Notice(route: "r", count: 2)])
    }
}
