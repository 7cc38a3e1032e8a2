import HTTP
import Testing
import Wire

@testable import Gate

/// `split-guard=`: when requests fail too often on the split side.
@Suite struct SplitGuardTests {
    @Test(arguments: [
        (SplitCounts(main: 100, mainFailed: 5, split: 100, splitFailed: 11), true),
        (SplitCounts(main: 100, mainFailed: 5, split: 100, splitFailed: 10), false),
        (SplitCounts(main: 1_000, mainFailed: 50, split: 20, splitFailed: 5), true),
        (SplitCounts(main: 1_000, mainFailed: 0, split: 20, splitFailed: 4), false),
        (SplitCounts(main: 1_000, mainFailed: 0, split: 19, splitFailed: 19), false),
        (SplitCounts(main: 19, mainFailed: 0, split: 20, splitFailed: 20), false),
        (SplitCounts(main: 20, mainFailed: 0, split: 20, splitFailed: 5), true),
        (SplitCounts(main: 20, mainFailed: 0, split: 60, splitFailed: 5), false),
    ]) func twiceTheFailuresOfTheOthersAreTooMany(_ counts: SplitCounts, _ isFailing: Bool) {
        #expect(counts.isFailing(beyond: 2) == isFailing)
    }

    /// However many requests it makes fail.
    @Test func oneClientIsOneUser() {
        let watch = SplitWatch(factor: 2)
        for user in 0..<100 { watch.note(UInt64(user), isSplit: user < 50, isFailed: false) }
        for _ in 0..<10_000 { watch.note(7, isSplit: true, isFailed: true) }
        #expect(watch.look() == nil)
        for user in 1..<5 { watch.note(UInt64(user), isSplit: true, isFailed: true) }
        #expect(watch.look() == SplitCounts(main: 50, split: 50, splitFailed: 5))
        #expect(watch.look() == nil, "it begins anew")
    }

    @Test func oldFailuresAreForgotten() {
        let watch = SplitWatch(factor: 2)
        for user in 0..<100 { watch.note(UInt64(user), isSplit: user < 50, isFailed: user < 4) }
        for _ in 0..<60 { #expect(watch.look() == nil) }
        watch.note(9, isSplit: true, isFailed: true)
        for user in 0..<100 { watch.note(UInt64(user), isSplit: user < 50, isFailed: false) }
        #expect(watch.look() == nil)
    }

    /// A request that was decided by another policy, of another share, does not count.
    @Test func theRecordOfARequestNamesItsUserAndSide() throws {
        var split = rule("feed", "/feed/*", auth: .optional)
        split.split = RouteSplit(percent: 50, upstreamName: "next")
        split.split?.upstream = 7
        split.splitGuard = SplitWatch(factor: 2)
        let harness = try AdmissionHarness([split, rule("plain", "/plain")])
        var note = DecisionRecord()
        for number in 0..<200 {
            harness.record("GET /feed/x HTTP/1.1\nHost: a\nAuthorization: Bearer \(AdmissionHarness.token("u\(number)"))", in: &note)
            harness.admission.noteSplit(note, isFailed: note.splitSide == .split)
        }
        #expect(harness.admission.policy.failingSplits().map(\.route) == ["feed"])
        harness.admission.adopt(try harness.admission.policy.replacing(trust: harness.admission.policy.trust, version: 2))
        for _ in 0..<3 { harness.admission.noteSplit(note, isFailed: true) }
        #expect(harness.admission.policy.failingSplits().isEmpty)
    }
}
