import Gate
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Large bodies, whose middle goes past the process.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct PipeTests {
    /// No two places of it look alike for long.
    private func content(_ count: Int) -> [UInt8] {
        var random = SplitMix64(seed: UInt64(count))
        let block = (0..<10_007).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + block.count)
        while bytes.count < count { bytes += block }
        return Array(bytes.prefix(count))
    }

    private func sending(_ bytes: [UInt8], on line: Line) throws -> WorkerThread {
        try WorkerThread(name: "sender") { try? line.send(bytes) }
    }

    private func receive(_ count: Int, from line: Line) throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count {
            guard let more = try line.receive(min(65_536, count - bytes.count)) else { throw TestFault("ended after \(bytes.count)") }
            bytes += more
        }
        return bytes
    }

    private func head(_ first: String, _ count: Int) -> [UInt8] {
        Array("\(first)\r\nHost: h\r\nContent-Length: \(count)\r\n\r\n".utf8)
    }

    @Test func bodiesArriveWholeBothWaysOneAfterTheOther() throws {
        let bench = try Bench()
        let client = try bench.client()
        var upstream: Line?
        for count in [65_536, 65_537, 200_000, 3_000_000, 70_000, 1_000_001] {
            let up = content(count), down = content(count + 7)
            let sender = try sending(head("POST /x HTTP/1.1", up.count) + up, on: client)
            let line = try upstream ?? bench.accept()
            upstream = line
            #expect(try line.receiveHead().contentLength == up.count)
            #expect(try receive(up.count, from: line) == up, "\(count)")
            sender.join()
            let answerer = try sending(head("HTTP/1.1 200 OK", down.count) + down, on: line)
            #expect(try client.receiveHead().status == 200)
            #expect(try receive(down.count, from: client) == down, "\(count)")
            answerer.join()
        }
        client.close()
        upstream?.close()
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        bench.end()
    }

    @Test func aHeadIsReadWithLittleOfTheBodyBehindIt() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var stepped = try SteppedWorker(forwardingTo: listener)
        let line = try Line(to: stepped.address)
        try stepped.turn { $0.downstream.clients.count > 0 }
        let client = try #require(stepped.worker.downstream.clients.indices.first)
        // As after a large body.
        while stepped.worker.downstream.clients[client].readSize.bytes < AdaptiveReadSize.most {
            stepped.worker.downstream.clients[client].readSize.received(AdaptiveReadSize.most, wasKept: false)
        }
        let sent = line.sendWhatGoes(head("POST /x HTTP/1.1", 1 << 20) + content(1 << 20), waiting: 100)
        #expect(sent > 2 * AdaptiveReadSize.least, "the rest is in the kernel")
        try stepped.turn { $0.exchanges.count > 0 }
        let exchange = stepped.worker.downstream.clients[client].exchange
        try #require(!exchange.isNone)
        let received = stepped.worker.exchanges[exchange.index].record.bytesIn
        #expect(0 < received && received < UInt64(AdaptiveReadSize.least))
        line.close()
        stepped.end()
    }

    @Test func aSlowReaderHoldsTheUpstreamBackAndGetsAllOfIt() throws {
        let bench = try Bench()
        let client = try Line(to: bench.worker.address, receiveBuffer: 16_384)
        try client.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        let down = content(32 << 20)
        try upstream.send(head("HTTP/1.1 200 OK", down.count))
        let sent = upstream.sendWhatGoes(down, waiting: 300)
        #expect(sent < down.count, "the kernel holds what fits, and then nobody takes more")
        let sender = try sending(Array(down[sent...]), on: upstream)
        _ = try client.receiveHead()
        #expect(try receive(down.count, from: client) == down)
        sender.join()
        client.close()
        upstream.close()
        bench.end()
    }

    @Test func anAnswerThatBreaksOffIsNotTakenForWhole() throws {
        let bench = try Bench()
        let client = try bench.client()
        try client.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        try upstream.send(head("HTTP/1.1 200 OK", 4_000_000) + content(1_000_000))
        upstream.close()
        let (text, _) = try client.receiveAll()
        #expect(text.status == 200 && text.utf8.count < 4_000_000)
        client.close()
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        bench.end()
    }

    @Test func whoeverGoesInTheMiddleLeavesNothingBehind() throws {
        let bench = try Bench()
        for clientGoes in [true, false] {
            let client = try Line(to: bench.worker.address, receiveBuffer: 16_384)
            try client.send("GET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            let upstream = try bench.accept()
            _ = try upstream.receiveMessage()
            try upstream.send(head("HTTP/1.1 200 OK", 32 << 20))
            _ = upstream.sendWhatGoes(content(16 << 20), waiting: 200)
            if clientGoes { client.reset() } else { upstream.reset() }
            #expect(bench.worker.census { $0.exchanges == 0 }.exchanges == 0)
            if clientGoes { upstream.close() } else { client.close() }
            #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        }
        bench.end()
    }

    @Test func anUpstreamThatRefusesInTheMiddleOfABodyIsHeard() throws {
        let bench = try Bench { $0.bodyLimit = 1 << 30 }
        let client = try bench.client()
        let sender = try sending(head("POST /x HTTP/1.1", 64 << 20) + content(64 << 20), on: client)
        let upstream = try bench.accept()
        _ = try upstream.receiveHead()
        _ = try receive(1_000_000, from: upstream)
        try upstream.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
        #expect(try client.receiveMessage().status == 413)
        upstream.close()
        client.reset()
        sender.join()
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        bench.end()
    }
}

extension Line {
    /// Receives a head, and no byte behind it.
    func receiveHead() throws -> String {
        var text = ""
        while !text.hasSuffix("\r\n\r\n") {
            guard let byte = try receive(1) else { throw TestFault("ended after \(text.debugDescription)") }
            text += String(decoding: byte, as: UTF8.self)
        }
        return text
    }
}
