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

    @Test func theNewestAreToldFirstAndTheOldestForgotten() throws {
        let policy = try policy(1)
        var refusals = RecentRefusals()
        for number in 0..<RecentRefusals.most + 44 { keep("\(number)", policy, decidedBy: policy, &refusals) }
        let all = refusals.stories(nil, limit: 1_000).map(\.requestID)
        let newest = (44..<RecentRefusals.most + 44).reversed().map { "\($0)" }
        #expect(all == newest)
        #expect(refusals.stories(nil, limit: 3).map(\.requestID) == ["299", "298", "297"])
        #expect(refusals.stories("100", limit: 10).map(\.requestID) == ["100"])
        #expect(refusals.stories("3", limit: 10).isEmpty)
    }

    @Test func aRequestMayEndAfterTheNextPolicyHasCome() throws {
        let (old, middle, new) = (try policy(1), try policy(2), try policy(3))
        var refusals = RecentRefusals()
        refusals.adopted(formerly: old)
        keep("under way", middle, decidedBy: old, &refusals)
        refusals.adopted(formerly: middle)
        keep("long under way", new, decidedBy: old, &refusals)
        keep("new", new, decidedBy: new, &refusals)
        #expect(refusals.stories(nil, limit: 10).map(\.requestID) == ["new", "under way"])
    }
}
