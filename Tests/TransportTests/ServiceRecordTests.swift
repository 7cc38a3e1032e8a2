import TestServers
import Testing

@testable import System

/// SRV records: reading a response's bytes, and asking a name server for them.
@Suite struct ServiceRecordTests {
    /// A response with these records behind the question `a.b` SRV.
    private static func response(_ records: [[UInt8]], flags: (UInt8, UInt8) = (0x81, 0x80), count: Int? = nil) -> [UInt8] {
        let question: [UInt8] = [1, 0x61, 1, 0x62, 0, 0, 33, 0, 1]
        return [0, 7, flags.0, flags.1, 0, 1, 0, UInt8(count ?? records.count), 0, 0, 0, 0] + question + records.joined()
    }

    private static func record(_ data: [UInt8], type: UInt8 = 33, length: Int? = nil) -> [UInt8] {
        [0xC0, 12, 0, type, 0, 1, 0, 0, 0, 9, 0, UInt8(length ?? data.count)] + data
    }

    @Test func `records come by priority, each once, their targets in lower case`() throws {
        let backup: [UInt8] = [0, 2, 0, 0, 0, 80, 1, 0x63, 0]
        // The target is `B`, compressed.
        let first: [UInt8] = [0, 1, 0, 5, 0x1F, 0x90, 1, 0x5A, 0xC0, 12]
        let bytes = Self.response([Self.record(backup), Self.record(first), Self.record(first), Self.record([1, 2, 3, 4], type: 1)])
        #expect(
            try DNSAnswer.services(bytes) == [
                ServiceRecord(priority: 1, weight: 5, port: 8080, target: "z.a.b"),
                ServiceRecord(priority: 2, weight: 0, port: 80, target: "c"),
            ])
        #expect(try DNSAnswer.services(Self.response([])) == [])
        #expect(try DNSAnswer.services(Self.response([Self.record([0, 0, 0, 0, 0, 0, 0])])).map(\.target) == [""])
    }

    @Test(arguments: [
        [], [0, 7, 0x81], response([], count: 1), response([record([0, 0, 0, 0, 0, 0])]),
        response([record([0, 0, 0, 0, 0, 1, 9, 0x61])]), response([record([0, 0, 0, 0, 0, 1, 0, 0])]),
        response([record([0, 0, 0, 0, 0, 1, 0], length: 200)]),
        // A dot inside a label, a pointer to itself, one forwards, and a label type that does not exist.
        response([record([0, 0, 0, 0, 0, 1, 1, 0x2E, 0])]), response([record([0, 0, 0, 0, 0, 1, 0xC0, 39])]),
        response([record([0, 0, 0, 0, 0, 1, 0xC0, 200])]), response([record([0, 0, 0, 0, 0, 1, 0x41, 0])]),
    ])
    func `a malformed response is a fault`(_ bytes: [UInt8]) {
        #expect(throws: DNSAnswer.Fault.malformed) { try DNSAnswer.services(bytes) }
    }

    @Test func `a query and an error are no answers`() {
        #expect(throws: DNSAnswer.Fault.refused) { try DNSAnswer.services(Self.response([], flags: (0x01, 0))) }
        #expect(throws: DNSAnswer.Fault.refused) { try DNSAnswer.services(Self.response([], flags: (0x81, 0x82))) }
    }

    @Test(arguments: [1, 2, 3]) func `no bytes harm`(_ seed: UInt64) {
        var random = seed
        let next = { (bound: Int) -> Int in
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(random >> 33) % bound
        }
        let good = Self.response((0..<4).map { Self.record([0, 1, 0, UInt8($0), 0, 80, 3, 0x61, 0x62, 0x63, 0xC0, 14]) })
        var read = 0
        for _ in 0..<30_000 {
            var bytes = good
            for _ in 0...next(4) {
                switch next(3) {
                case 0: bytes[next(bytes.count)] = UInt8(next(256))
                case 1: bytes.insert(UInt8(next(256)), at: next(bytes.count))
                default: if bytes.count > 1 { bytes.removeLast(1 + next(min(8, bytes.count - 1))) }
                }
            }
            guard let records = try? DNSAnswer.services(bytes) else { continue }
            read += 1
            #expect(records.allSatisfy { $0.target.utf8.count < 255 && $0.target.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } })
        }
        #expect(read > 100, "mutations that leave a good answer are read")
    }

    // MARK: a name server

    private static let name = "_http._tcp.api.test"

    private static func ask(_ server: NameServer, _ name: String = name) throws(SystemFault) -> [ServiceRecord] {
        try Resolver.services(name, server: (server.address, server.port))
    }

    @Test func `a name server is asked`() throws {
        let server = try NameServer()
        server.change {
            $0.names[Self.name] = [
                .service(.init("B.test", 8_002, priority: 1)), .service(.init("a.test", 8_001, weight: 7)), .address("127.0.0.1"),
            ]
        }
        #expect(
            try Self.ask(server) == [
                ServiceRecord(priority: 0, weight: 7, port: 8_001, target: "a.test"),
                ServiceRecord(priority: 1, weight: 0, port: 8_002, target: "b.test"),
            ])
    }

    @Test func `an answer too long for a datagram comes over TCP`() throws {
        let server = try NameServer()
        server.change { $0.names[Self.name] = (1...100).map { .service(.init("server-\($0).test", $0)) } }
        #expect(try Self.ask(server).count == 100)
    }

    @Test func `no name, no records and nonsense are told apart`() throws {
        let server = try NameServer()
        server.change { zone in
            zone.names["empty.test"] = []
            zone.names["bad.test"] = [.raw([0xC0, 12, 0, 33, 0, 1, 0, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 1, 0xFF])]
        }
        for (name, reason) in [
            ("missing.test", "there is no such name"), ("empty.test", "the name has no SRV records"),
            ("bad.test", "the name server's answer is malformed"),
        ] {
            let fault = #expect(throws: SystemFault.self) { try Self.ask(server, name) }
            #expect(fault?.description == "cannot find the SRV records of \(name): \(reason)")
        }
    }
}
