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

    @Test func untrustedPeersAreNotBelieved() throws {
        for header in ["X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Forwarded-For: 10.0.0.9"] {
            #expect(try client(header, from: "203.0.113.9") == certain("203.0.113.9", trusted: false))
        }
    }

    @Test(arguments: [
        ("", "10.0.0.1"),
        ("X-Forwarded-For: 203.0.113.5", "203.0.113.5"),
        ("X-Forwarded-For: 1.1.1.1, 203.0.113.5", "203.0.113.5"),
        ("X-Forwarded-For: 1.1.1.1, 203.0.113.5, 10.0.0.7", "203.0.113.5"),
        ("X-Forwarded-For: garbage, 203.0.113.5,10.0.0.7 ,\t10.2.0.7", "203.0.113.5"),
        ("X-Forwarded-For: 10.0.0.9, 10.0.0.7", "10.0.0.9"),
        ("X-Forwarded-For: 1.1.1.1\nX-Forwarded-For: 203.0.113.5", "203.0.113.5"),
        ("X-Forwarded-For: 203.0.113.5\nX-Forwarded-For: 10.0.0.7", "203.0.113.5"),
        ("X-Forwarded-For: 203.0.113.5:4711", "203.0.113.5"),
        ("X-Forwarded-For: [2001:db8::5]:80", "2001:db8::5"),
        ("X-Forwarded-For: [2001:db8::5]", "2001:db8::5"),
        ("X-Forwarded-For: 2001:db8::5, fd00::1", "2001:db8::5"),
        ("Forwarded: for=203.0.113.5;proto=https;by=10.0.0.1", "203.0.113.5"),
        ("Forwarded: proto=https; FOR=\"[2001:db8::5]:4711\"", "2001:db8::5"),
        ("Forwarded: for=1.1.1.1, for=\"203.0.113.5\", for=10.0.0.7;host=\"a,b;for=9.9.9.9\"", "203.0.113.5"),
        ("Forwarded: for=203.0.113.5\nForwarded: for=10.0.0.7", "203.0.113.5"),
        (#"Forwarded: for=203.0.113.5;host="a\",for=9.9.9.9;""#, "203.0.113.5"),
        ("X-Forwarded-For: 203.0.113.5\nForwarded: for=203.0.113.5", "203.0.113.5"),
    ])
    func theFirstUntrustedFromTheRightIsTheClient(_ headers: String, _ expected: String) throws {
        #expect(try client(headers) == certain(expected))
    }

    @Test(arguments: [
        ("X-Forwarded-For: unknown", "10.0.0.1"), ("X-Forwarded-For:", "10.0.0.1"), ("X-Forwarded-For: 1.2.3.4,", "10.0.0.1"),
        ("X-Forwarded-For: 1.2.3.4, nonsense, 10.0.0.7", "10.0.0.7"), ("X-Forwarded-For: 1.2.3", "10.0.0.1"),
        ("X-Forwarded-For: 1.2.3.4:port", "10.0.0.1"), ("X-Forwarded-For: [::1", "10.0.0.1"),
        ("Forwarded: for=_obfuscated", "10.0.0.1"), ("Forwarded: proto=https", "10.0.0.1"),
        ("Forwarded: for=1.1.1.1;for=2.2.2.2", "10.0.0.1"), ("Forwarded: for=\"1.1.1.1", "10.0.0.1"),
        ("X-Forwarded-For: 203.0.113.5\nForwarded: for=203.0.113.6", "203.0.113.5"),
    ])
    func contradictingFieldsAreNotCertain(_ headers: String, _ counted: String) throws {
        let found = try client(headers)
        #expect(!found.isCertain && found.peerIsTrusted)
        #expect(found.address == IPAddress(parsing: counted))
    }

    @Test func anEndlessChainIsCutOff() throws {
        let long = Array(repeating: "for=10.0.0.2", count: 40).joined(separator: ",")
        #expect(try !client("Forwarded: \(long)").isCertain)
        let list = Array(repeating: "10.0.0.2", count: 500).joined(separator: ",")
        #expect(try client("X-Forwarded-For: 9.9.9.9,\(list)") == certain("9.9.9.9"))
    }
}
