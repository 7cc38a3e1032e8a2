import Credentials
import Gate
import Testing

@testable import tollgate

@Suite struct FormerPolicyTests {
    @Test func aPolicyIsKeptUntilTheLastWorkerLetsGo() throws {
        var former = FormerPolicies()
        func policy(_ version: Int) throws -> Policy { try Policy(version: version, rules: [], trust: Trust(issuers: [])) }
        var worker: Policy? = try policy(1)
        if let worker { former.add(worker) }
        former.add(try policy(2))
        #expect(former.takeUnused().map(\.version) == [2])
        #expect(former.takeUnused().isEmpty)
        #expect(worker?.version == 1)
        worker = nil
        #expect(former.takeUnused().map(\.version) == [1])
        #expect(former.takeUnused().isEmpty)
    }
}
