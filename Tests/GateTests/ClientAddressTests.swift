import Testing
import Wire

@testable import Gate

@Suite struct ClientAddressTests {
    private func client(_ headers: String, from: String = "10.0.0.1") throws -> ClientAddress {
        let harness = try AdmissionHarness([rule("r", "/*", auth: .none)], proxies: ["10.0.0.0/8", "fd00::/8"])
        return harness.get("/", headers, from: from).client
    }

    private func certain(_ address: String, trusted: Bool = true) -> ClientAddress {
        ClientAddress(address: IPAddress(parsing: address) ?? IPAddress(high: 0, low: 0), peerIsTrusted: trusted)
    }

    @Test func anEndlessChainIsCutOff() throws {
        let long = Array(repeating: "for=10.0.0.2", count: 40).joined(separator: ",")
        #expect(try !client("Forwarded: \(long)").isCertain)
        let list = Array(repeating: "10.0.0.2", count: 500).joined(separator: ",")
        #expect(try client("X-Forwarded-For: 9.9.9.9,\(list)") == certain("9.9.9.9"))
    }
}
