import Glibc
import Testing
import Transport
import Wire

@Suite struct TLSSessionTests {
    let certificates: Certificates
    let server: TLSServerContext
    let client: TLSClientContext

    init() throws {
        (certificates, server, client) = try TLSPairing.contexts()
    }

    func pairing(_ name: String = "localhost") throws -> TLSPairing { try TLSPairing.make(server, client, name: name) }

    @Test func `a client and a server agree on TLS 1_3 and http/1_1`() throws {
        let pairing = try pairing()
        #expect(pairing.clientOutcome == .done)
        #expect(pairing.serverOutcome == .done)
        #expect(pairing.server.session.version.description == "TLSv1.3")
        #expect(pairing.server.session.alpn == "http/1.1")
        #expect(pairing.client.session.alpn == "http/1.1")
        #expect(pairing.server.session.wasResumed == false)
    }

    @Test func `sent bytes are received`() throws {
        var pairing = try pairing()
        try pairing.client.write(Array("hello".utf8))
        #expect(try pairing.server.read(5) == Array("hello".utf8))
        try pairing.server.write(Array("and back".utf8))
        #expect(try pairing.client.read(8) == Array("and back".utf8))
    }

    @Test func `nothing to read is no end`() throws {
        var pairing = try pairing()
        var buffer = ByteBuffer()
        #expect(pairing.server.receive(&buffer) == .wouldBlock)
        #expect(pairing.server.receive(&buffer, 0) == .done(0))
        #expect(pairing.server.session.hasPending == false)
    }

    @Test func `up to four records go at once, whatever the size`() throws {
        var pairing = try pairing()
        for size in [1, 100, 16_383, 16_384, 16_385, 40_000, 65_536, 70_000] {
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            let outcome = pairing.server.session.send(bytes.rawBytes)
            guard case .done(let count) = outcome else {
                Issue.record("\(size): \(outcome)")
                return
            }
            #expect(count == min(size, 65_536))
            #expect(try pairing.client.read(count) == Array(bytes.prefix(count)))
        }
    }

    /// Bytes buffered by OpenSSL are not reported by the event loop.
    @Test(arguments: [1, 7, 100, 16_384, 20_000])
    func `small reads see pending bytes until all are read`(_ chunk: Int) throws {
        var pairing = try pairing()
        let bytes = (0..<40_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try pairing.client.write(bytes)
        var buffer = ByteBuffer()
        while buffer.count < bytes.count {
            if !pairing.server.session.hasPending { try #require(wait(pairing.server.socket, for: POLLIN)) }
            let outcome = pairing.server.receive(&buffer, chunk)
            if outcome == .wouldBlock {
                #expect(pairing.server.session.hasPending == false)
                continue
            }
            guard case .done(let count) = outcome else { throw TestFault("\(outcome)") }
            #expect((1...chunk).contains(count))
        }
        let received = buffer.readable.array
        #expect(received == bytes)
        #expect(pairing.server.session.hasPending == false)
    }

    @Test func `a receiver that does not read holds the sender back, and nothing is lost`() throws {
        var pairing = try pairing()
        let bytes = (0..<8_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        var sent = 0
        var held = false
        var buffer = ByteBuffer()
        while buffer.count < bytes.count {
            while sent < bytes.count {
                let outcome = pairing.server.session.send(
                    bytes.rawBytes.dropping(sent))
                guard case .done(let count) = outcome else {
                    #expect(outcome == .wouldBlock)
                    held = true
                    break
                }
                sent += count
            }
            if pairing.client.receive(&buffer, 1 << 20) == .wouldBlock, sent == bytes.count {
                try #require(wait(pairing.client.socket, for: POLLIN))
            }
        }
        let received = buffer.readable.array
        #expect(held)
        #expect(received == bytes)
        #expect(pairing.server.session.wantsWrite == false)
    }

    @Test func `a close-notify ends the stream behind the last bytes`() throws {
        var pairing = try pairing()
        try pairing.client.write([1, 2, 3])
        pairing.client.session.closeNotify()
        try #require(wait(pairing.server.socket, for: POLLIN))
        var buffer = ByteBuffer()
        #expect(pairing.server.receive(&buffer, 3) == .done(3))
        #expect(pairing.server.session.hasPending == true)
        #expect(try pairing.server.end() == .closed)
        // The other direction is still open.
        try pairing.server.write([4])
        #expect(try pairing.client.read(1) == [4])
    }

    @Test func `a stream that ends without a close-notify may have been cut`() throws {
        var pairing = try pairing()
        pairing.client.socket.shutdownWrite()
        #expect(try pairing.server.end() == .failed(ECONNRESET))
    }

    @Test func `a changed byte on the way ends the session`() throws {
        var pairing = try pairing()
        let forged: [UInt8] = [23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32)
        try write(forged, to: pairing.client.socket)
        #expect(try pairing.server.end() == .failed(EPROTO))
        #expect(pairing.server.session.faultText != nil)
        #expect(try pairing.server.end() != .wouldBlock)
        #expect(try pairing.client.end() == .failed(EPROTO))
    }

    @Test func `a peer that goes away during the handshake is no fault`() throws {
        let (listener, address) = try listenLocally()
        defer { listener.close() }
        let client = try connect(to: address)
        var end = try TLSEnd(server, try accept(listener).0)
        #expect(end.step() == .wantRead)
        client.close()
        #expect(try end.handshake() == .closed)
    }

    @Test(arguments: ["GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\u{5}hello", "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}"])
    func `bytes that are not TLS fail the handshake`(_ text: String) throws {
        let ends = try pair()
        defer { ends.client.close() }
        var end = try TLSEnd(server, ends.server)
        try write(Array(text.utf8), to: ends.client)
        guard case .failed(let reason) = try end.handshake() else {
            Issue.record("accepted")
            return
        }
        #expect(!reason.isEmpty)
        #expect(end.step() != .done)
    }

    /// A real ClientHello with bytes changed: the handshake fails or waits for more, and nothing else.
    @Test func `a damaged hello does no harm`() throws {
        let hello = try hello()
        var random = SplitMix64(seed: 7)
        for round in 0..<400 {
            let ends = try pair()
            defer { ends.client.close() }
            var end = try TLSEnd(server, ends.server)
            var bytes = hello
            for _ in 0...Int.random(in: 0..<4, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            if round % 3 == 0 { bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random)) }
            try write(bytes, to: ends.client)
            _ = end.step()
            ends.client.shutdownWrite()
            let outcome = end.step()
            #expect(outcome != .done && outcome != .wantWrite)
        }
    }

    @Test func `bytes read before the session began are its first`() throws {
        let hello = try hello()
        for split in [1, 5, 100, hello.count] {
            let ends = try pair()
            defer { ends.client.close() }
            let session = try TLSSession(server, ends.server, received: hello.rawBytes.extracting(first: split))
            var end = TLSEnd(session, ends.server)
            if split < hello.count {
                try write(Array(hello.dropFirst(split)), to: ends.client)
                try #require(wait(ends.server, for: POLLIN))
            }
            while true {
                #expect(end.step() == .wantRead)
                if wait(ends.client, for: POLLIN) { break }
            }
            #expect(try read(ends.client, 5)[0] == 22)
        }
    }

    @Test func `a hello that comes byte by byte is answered like any other`() throws {
        let hello = try hello()
        let ends = try pair()
        defer { ends.client.close() }
        var end = try TLSEnd(server, ends.server)
        for byte in hello {
            #expect(end.step() == .wantRead)
            try write([byte], to: ends.client)
            try #require(wait(ends.server, for: POLLIN))
        }
        #expect(end.step() == .wantRead)
        #expect(try read(ends.client, 5)[0] == 22)
    }

    /// The client's first flight.
    private func hello() throws -> [UInt8] {
        let ends = try pair()
        defer { ends.server.close() }
        var end = try TLSEnd(client, ends.client, "localhost")
        #expect(end.step() == .wantRead)
        try #require(wait(ends.server, for: POLLIN))
        var buffer = ByteBuffer()
        _ = ends.server.receive(into: &buffer, upTo: 4096)
        return buffer.readable.array
    }

    @Test(arguments: [("localhost", true), ("127.0.0.1", true), ("other.example", false), ("127.0.0.2", false)])
    func `a client accepts a certificate for the host that it asked for alone`(_ name: String, _ accepted: Bool) throws {
        let pairing = try pairing(name)
        #expect((pairing.clientOutcome == .done) == accepted)
        if !accepted {
            guard case .failed(let reason) = pairing.clientOutcome else { throw TestFault("\(pairing.clientOutcome)") }
            #expect(reason.contains("mismatch"))
        }
    }

    @Test func `a client refuses a certificate that no authority of its stands behind`() throws {
        let server = try TLSServerContext(pairs: [certificates.pair("selfsigned")], now: later)
        #expect(
            try TLSPairing.make(server, client).clientOutcome
                == .failed("the certificate is refused: self-signed certificate"))
        // Nor does the system know the authority of the tests.
        let system = try TLSClientContext()
        guard case .failed = try TLSPairing.make(self.server, system).clientOutcome else { throw TestFault("accepted") }
    }

    @Test func `a client refuses an expired certificate`() throws {
        let server = try TLSServerContext(pairs: [certificates.pair("expired")], now: later)
        #expect(
            try TLSPairing.make(server, client).clientOutcome
                == .failed("the certificate is refused: certificate has expired"))
    }

    @Test func `application protocols that do not meet end the handshake`() throws {
        let client = try TLSClientContext(authorityFile: certificates.authority, protocols: ["h2"])
        let pairing = try TLSPairing.make(server, client)
        guard case .failed = pairing.serverOutcome, case .failed = pairing.clientOutcome else {
            throw TestFault("\(pairing.serverOutcome) \(pairing.clientOutcome)")
        }
    }
}
