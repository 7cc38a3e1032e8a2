import Acme
import TestServers
import Testing

/// Whether a record that was added has come to all name servers of its zone.
@Suite struct RecordSpreadTests {
    private let (first, second): (NameServer, NameServer)
    private let records: DNSRecords
    private let record = (name: "_acme-challenge.example.org", text: "digest")

    init() throws {
        first = try NameServer()
        second = try NameServer(address: 0x7F00_0002, port: first.port)
        records = .server(DNSUpdateServer(host: "127.0.0.1", port: first.port, zone: "example.org", keyName: "k", secret: [1]))
        first.change {
            $0.names["example.org"] = [.server("ns.example.org"), .server("ns2.example.org")]
            $0.names["ns.example.org"] = [.address("127.0.0.1")]
            $0.names["ns2.example.org"] = [.address("127.0.0.2")]
        }
    }

    private var lateness: DNSRecords.Lateness? { records.problem(findingAll: record, random: 7, within: 60_000) }
    private var problem: String? { lateness?.text }

    @Test func theServerThatLacksItIsNamed() {
        #expect(problem == "the name server ns.example.org does not have the record _acme-challenge.example.org")
        first.change { $0.names["_acme-challenge.example.org"] = [.text("digest")] }
        #expect(problem == "the name server ns2.example.org does not have the record _acme-challenge.example.org")
        second.change { $0.names["_acme-challenge.example.org"] = [.text("of another order")] }
        #expect(problem?.contains("ns2.example.org does not have") == true)
        second.change { $0.names["_acme-challenge.example.org"] = [.text("of another order"), .text("digest")] }
        #expect(problem == nil)
    }

    @Test func aServerThatCannotBeAskedIsNamed() {
        first.change { $0.names["_acme-challenge.example.org"] = [.text("digest")] }
        // Names where it has an error, where it is broken, and where it is nothing.
        for records in [[], [.raw([0xFF])], [.raw([0xC0, 12, 0, 16, 0, 1, 0, 0, 0, 1, 0, 2, 9, 97])]] as [[NameServer.Record]?] + [nil] {
            second.change { $0.names["_acme-challenge.example.org"] = records }
            #expect(problem?.hasPrefix("the name server ns2.example.org does not ") == true, "\(String(describing: records))")
        }
        first.change { $0.names["example.org"] = nil }
        #expect(problem == "the DNS server 127.0.0.1 does not name the name servers of example.org")
        #expect(DNSRecords.program("/nonexistent").problem(findingAll: record, random: 7, within: 60_000) == nil)
    }

    /// Waiting does not help for a server that does not answer at all. It does for one that answers that the name does not exist.
    @Test func aSilentServerIsToldFromOneThatLacksTheRecord() {
        first.change { $0.names["_acme-challenge.example.org"] = [.text("digest")] }
        #expect(lateness == .init("the name server ns2.example.org does not have the record _acme-challenge.example.org"))
        second.change { $0.isSilent = true }
        #expect(lateness == .init("the name server ns2.example.org does not answer", isSilence: true))
        first.change {
            $0.names["example.org"] = [.server("ns2.example.org"), .server("ns.example.org")]
            $0.names["_acme-challenge.example.org"] = nil
        }
        #expect(lateness == .init("the name server ns.example.org does not have the record _acme-challenge.example.org"))
        first.change { $0.isSilent = true }
        #expect(lateness?.isSilence == true)
    }

    /// It would hold the order up for as long as it likes.
    @Test func aServerThatTricklesItsAnswerIsNotWaitedFor() {
        for server in [first, second] { server.change { $0.names["_acme-challenge.example.org"] = [.text("digest")] } }
        second.change { $0.pause = 5 }
        #expect(lateness == nil)
        // Its answer has more than 50 bytes.
        #expect(records.problem(findingAll: record, random: 7, within: 150)?.isSilence == true)
    }
}
