import Credentials
import Gate
import HTTP
import TestThreads
import Testing
import Wire

@testable import Proxy

/// A worker's recent refusals.
@Suite(.ownThread) struct RecentRefusalsTests {
    private func policy(_ version: Int) throws -> Policy { try Policy(version: version, rules: [], trust: Trust(issuers: [])) }

    private func keep(_ id: String, _ policy: Policy, decidedBy decider: Policy, _ refusals: inout RecentRefusals) {
        var note = DecisionRecord()
        note.recordUnparsed(HTTPFault(.missingHost), from: IPAddress(high: 0, low: 1), decider)
        var name = ByteBuffer()
        name.append(id)
        refusals.keep(&note, name.readable, policy: policy, at: WallTime(seconds: 0))
    }

    private func of(_ requestID: String) -> RefusalQuery {
        var query = RefusalQuery(limit: 10)
        query.requestID = requestID
        return query
    }

    @Test func thoseSinceAnEarlierQuestionAreToldAndTheRestCounted() throws {
        let policy = try policy(1)
        var refusals = RecentRefusals()
        for number in 0..<5 { keep("\(number)", policy, decidedBy: policy, &refusals) }
        let first = refusals.stories(since: nil, limit: 50)
        #expect(first.stories.isEmpty && first.skipped == 0 && first.count == 5)
        for number in 5..<12 { keep("\(number)", policy, decidedBy: policy, &refusals) }
        let next = refusals.stories(since: first.count, limit: 3)
        #expect(next.stories.map(\.requestID) == ["11", "10", "9"] && next.skipped == 4 && next.count == 12)
        let none = refusals.stories(since: next.count, limit: 3)
        #expect(none.stories.isEmpty && none.skipped == 0)
        // More than are kept.
        for number in 0..<RecentRefusals.most + 10 { keep("\(number)", policy, decidedBy: policy, &refusals) }
        let many = refusals.stories(since: none.count, limit: 1_000)
        #expect(many.stories.count == RecentRefusals.most && many.skipped == 10)
    }

    @Test func refusalsAreFoundByCodeAndStatus() throws {
        let policy = try policy(1)
        var refusals = RecentRefusals()
        keep("one", policy, decidedBy: policy, &refusals)
        var query = RefusalQuery(limit: 10)
        query.status = 400
        #expect(refusals.stories(query).count == 1)
        query.code = "BAD_REQUEST"
        #expect(refusals.stories(query).count == 1)
        query.code = "NOT_FOUND"
        #expect(refusals.stories(query).isEmpty)
        query = RefusalQuery(limit: 10)
        query.route = "r"
        #expect(refusals.stories(query).isEmpty)
        query = RefusalQuery(limit: 10)
        query.user = "ada"
        #expect(refusals.stories(query).isEmpty)
    }

    @Test func theNewestAreToldFirstAndTheOldestForgotten() throws {
        let policy = try policy(1)
        var refusals = RecentRefusals()
        for number in 0..<RecentRefusals.most + 44 { keep("\(number)", policy, decidedBy: policy, &refusals) }
        let all = refusals.stories(RefusalQuery(limit: 1_000)).map(\.requestID)
        let newest = (44..<RecentRefusals.most + 44).reversed().map { "\($0)" }
        #expect(all == newest)
        #expect(refusals.stories(RefusalQuery(limit: 3)).map(\.requestID) == ["299", "298", "297"])
        #expect(refusals.stories(of("100")).map(\.requestID) == ["100"])
        #expect(refusals.stories(of("3")).isEmpty)
    }

    @Test func aRequestMayEndAfterTheNextPolicyHasCome() throws {
        let (old, middle, new) = (try policy(1), try policy(2), try policy(3))
        var refusals = RecentRefusals()
        refusals.adopted(formerly: old)
        keep("under way", middle, decidedBy: old, &refusals)
        refusals.adopted(formerly: middle)
        keep("long under way", new, decidedBy: old, &refusals)
        keep("new", new, decidedBy: new, &refusals)
        #expect(refusals.stories(RefusalQuery(limit: 10)).map(\.requestID) == ["new", "under way"])
    }
}
