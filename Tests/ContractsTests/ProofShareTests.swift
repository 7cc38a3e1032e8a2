import Foundation
import Stories
import Testing

/// The proofs of device keys that one address may use.
@Suite struct ProofShareTests {
    private let world: ContractWorld
    private let device: Device

    init() throws { (world, device) = (try ContractWorld(), try Device()) }

    private func post(_ path: String, _ body: String) async throws -> StoryAnswer {
        try await world.ask("POST", path, [try device.proof(path, at: world.now)], Array(body.utf8))
    }

    /// Beyond the share of their address, the sessions behind it have a few each.
    @Test func proofsThatHoldAreLimitedAndKeepNoSessionFromItsOwner() async throws {
        let account = try await post("/api/v1/auth/register", #"{"email":"ada@example.org","password":"correct horse"}"#)
        let opened = try #require(try JSONSerialization.jsonObject(with: Data(account.body)) as? [String: Any])
        let token = try #require((opened["tokens"] as? [String: String])?["refresh"])
        func isLimited(_ token: String) async throws -> Bool {
            try await post("/api/v1/auth/refresh", #"{"refresh":"\#(token)"}"#).status == 429
        }
        for _ in 1..<6_000 { #expect(try await !isLimited("x")) }
        #expect(try await isLimited("x"))
        for _ in 0..<10 { #expect(try await !isLimited(token)) }
        #expect(try await isLimited(token))
        try await world.wait(seconds: 60)
        #expect(try await !isLimited("x"))
    }
}
