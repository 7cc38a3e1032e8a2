import Testing
import Wire

@testable import Gate

/// Requests of all kinds, broken at random: the gate answers every one, and never with an identity that no token gave.
@Suite struct AdmissionFuzzTests {
    private static let lines = [
        "X-User-Id: admin", "x_user_tier: premium", "X-User-Premium: true", "X-Forwarded-For: 10.0.0.1, 9.9.9.9",
        "X-Forwarded-For: [::1]:x, ,", "Forwarded: for=\"[2001:db8::1]\";proto=http, for=_x", "Forwarded: for=\"", "X-Internal-Key: k",
        "X-Device: d", "Authorization: Basic x", "Authorization: Bearer", "Authorization: Bearer a.b.c", "Content-Length: 7",
        "Connection: X-User-Id, close", "X-Refresh-Token: t",
    ]
    private static let paths = [
        "/", "/p/x", "/p/../p/x", "/p//%78", "/i/x", "/o/x?y=%2F", "/o/a%2fb", "/s/..;/", "/%c3%a9", "/n/%00", "/o/%25%32%66",
        "http://h.test/p/x", "/p/%e0%80%80", "/" + String(repeating: "a/../", count: 40),
    ]

    @Test func everyRequestIsAnswered() throws {
        var open = rule("o", "/o/*", auth: .optional)
        open.encodedSlashPasses = true
        open.strip = "/o"
        open.limits = [try LimitPolicy(parsing: "5/s", tiers: .standard)]
        open.limitBy = .header("x-device")
        var private_ = rule("p", "/p/*")
        private_.limits = [try LimitPolicy(parsing: "5/s", tiers: .standard)]
        let harness = try AdmissionHarness(
            [open, private_, rule("i", "/i/*", auth: .internal), rule("n", "GET h.test/n/*", auth: .none)], proxies: ["10.0.0.0/8"],
            internals: [InternalCaller(name: "b", networks: [CIDR(parsing: "10.0.0.0/8")!])])
        let token = AdmissionHarness.token("genuine", tier: "premium")
        var random = SplitMix64(seed: 77)
        var seen: Set<UInt16> = []
        for _ in 0..<25_000 {
            let (bytes, mutated) = Self.request(&random, token)
            let peer = Peer(address: IPAddress(v4: random.next() % 2 == 0 ? 0x0A00_0001 : 0xC000_0207))
            guard let judged = harness.ask(raw: bytes, from: peer) else { continue }
            seen.insert(judged.status)
            #expect(judged.identity.isEmpty || judged.identity.first == "X-User-Id: genuine")
            #expect(judged.identity.isEmpty || judged.auth == .accepted || judged.status != 0)
            #expect(judged.status == 0 || judged.explanation.status == judged.status)
            if judged.status == 0 && judged.route == "p" { #expect(judged.userID == "genuine") }
            #expect(judged.status != 500)
            if !mutated { #expect(judged.path?.contains("..") != true) }
            harness.advance(milliseconds: random.next() % 40)
        }
        #expect(seen.isSuperset(of: [0, 400, 401, 403, 404, 429]))
    }

    private static func request(_ random: inout SplitMix64, _ token: String) -> ([UInt8], Bool) {
        var text =
            "\(random.next() % 5 == 0 ? "POST" : "GET") \(paths[Int(random.next() % UInt64(paths.count))]) HTTP/1.1\r\nHost: h.test\r\n"
        if random.next() % 2 == 0 { text += "Authorization: Bearer \(token)\r\n" }
        for _ in 0..<random.next() % 4 { text += lines[Int(random.next() % UInt64(lines.count))] + "\r\n" }
        var bytes = Array((text + "\r\n").utf8)
        guard random.next() % 3 == 0 else { return (bytes, false) }
        for _ in 0..<1 + random.next() % 3 {
            bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next())
        }
        return (bytes, true)
    }
}
