import Foundation
import Testing
import Threads
import Transport
import Wire

/// How bytes are cut into records, and when session tickets leave. The client's side is read without TLS.
@Suite struct TLSRecordTests {
    let certificates: Certificates
    let server: TLSServerContext
    let client: TLSClientContext

    init() throws {
        (certificates, server, client) = try TLSPairing.contexts()
    }

    /// Overhead of a record of AES-GCM: header, content type, authentication tag.
    private static let overhead = 5 + 1 + 16

    /// A connection whose tickets have left.
    private func pairing() throws -> TLSPairing {
        var pairing = try TLSPairing.make(server, client)
        try pairing.server.write([0])
        _ = try pairing.client.read(1)
        pairing.server.session.rest()
        return pairing
    }

    /// Sends `count` bytes, which the socket takes at once, and reads the records: the plaintext bytes of each.
    private func records(_ pairing: inout TLSPairing, _ count: Int) throws -> [Int] {
        guard pairing.server.session.send([UInt8](repeating: 7, count: count).rawBytes) == .done(count) else { throw TestFault("not sent") }
        return try records(pairing.client.socket, until: count)
    }

    private func records(_ socket: Socket, until count: Int) throws -> [Int] {
        var sizes: [Int] = []
        while sizes.reduce(0, +) < count {
            let head = try read(socket, 5)
            try #require(head[0] == 23)
            let length = Int(head[3]) << 8 | Int(head[4])
            _ = try read(socket, length)
            sizes.append(length + 5 - Self.overhead)
        }
        return sizes
    }

    @Test(arguments: [1, 300, 12_288])
    func `a small answer is one record`(_ size: Int) throws {
        var pairing = try pairing()
        #expect(try records(&pairing, size) == [size])
        #expect(try records(&pairing, size) == [size])
    }

    @Test func `the first records fit a congestion window, later ones are of full size`() throws {
        var pairing = try pairing()
        #expect(try records(&pairing, 65_536) == [12_288, 16_384, 16_384, 16_384, 4_096])
        #expect(try records(&pairing, 65_536) == [16_384, 16_384, 16_384, 16_384])
    }

    @Test func `a head that is sent first counts for the first window`() throws {
        var pairing = try pairing()
        #expect(try records(&pairing, 288) == [288])
        #expect(try records(&pairing, 30_000) == [12_000, 16_384, 1_616])
        #expect(try records(&pairing, 16_384) == [16_384])
    }

    @Test func `records begin small again after an idle time`() throws {
        var pairing = try pairing()
        #expect(try records(&pairing, 32_768) == [12_288, 16_384, 4_096])
        pairing.server.session.rest()
        #expect(try records(&pairing, 16_384) == [12_288, 4_096])
    }

    // MARK: tickets

    /// Bytes that can be read from the socket now.
    private func waiting(_ socket: Socket) -> [UInt8] {
        var buffer = ByteBuffer()
        _ = socket.receive(into: &buffer, upTo: 65_536)
        return buffer.readable.array
    }

    @Test func `the ticket leaves ahead of the first bytes`() throws {
        var pairing = try TLSPairing.make(server, client)
        #expect(pairing.serverOutcome == .done)
        #expect(waiting(pairing.client.socket).isEmpty)
        #expect(pairing.server.session.wantsWrite == false)
        try pairing.server.write([1, 2, 3])
        let records = try records(pairing.client.socket, until: 100)
        #expect(records.count == 1 && records[0] > 100)
        #expect(try self.records(pairing.client.socket, until: 3) == [3])
    }

    @Test func `the ticket does not go astray when the client speaks first, or says nothing`() throws {
        var pairing = try TLSPairing.make(server, client)
        try pairing.client.write([1])
        #expect(try pairing.server.read(1) == [1])
        var buffer = ByteBuffer()
        #expect(pairing.server.receive(&buffer) == .wouldBlock)
        #expect(waiting(pairing.client.socket).isEmpty)
        pairing.server.session.rest()
        #expect(try records(pairing.client.socket, until: 100).count == 1)
        // The keys' order is kept: what follows can be read.
        try pairing.client.write([2])
        #expect(try pairing.server.read(1) == [2])
    }

    @Test func `a close-notify follows a ticket that was held`() throws {
        var pairing = try TLSPairing.make(server, client)
        pairing.server.session.closeNotify()
        #expect(try pairing.client.end() == .closed)
    }

    @Test func `a session that ends in an alert says so with its ticket`() throws {
        var pairing = try TLSPairing.make(server, client)
        try write([23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32), to: pairing.client.socket)
        #expect(try pairing.server.end() == .failed(EPROTO))
        #expect(try pairing.client.end() == .failed(EPROTO))
    }

    @Test(arguments: ["k", "K"])
    func `keys can change before the ticket has left`(_ command: String) throws {
        let lines = try LineServer(server)
        let peer = try CommandPeer("openssl", ["s_client", "-connect", lines.address.description, "-CAfile", certificates.authority])
        try peer.hear("Verify return code")
        try peer.say(command + "\n")
        try peer.hear("KEYUPDATE")
        try peer.say("line\n")
        try peer.hear("line>")
        try peer.say("bye\n")
        try peer.hear("bye>")
        #expect(lines.join() == ["TLSv1.3 - new"])
    }

    @Test func `a full handshake gives one ticket`() throws {
        let lines = try LineServer(server)
        let arguments = ["s_client", "-connect", lines.address.description, "-CAfile", certificates.authority, "-ign_eof"]
        let output = try run("openssl", arguments, input: "bye\n", mayFail: true)
        #expect(output.components(separatedBy: "New Session Ticket arrived").count == 2)
        _ = lines.join()
    }
}
