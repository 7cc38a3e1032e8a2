import Gate
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Frames of WebSockets that are too long to be copied as a whole.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct LongFrameTests {
    private func open(receiveBuffer: Int32? = nil) throws -> (bench: Bench, client: Line, upstream: Line) {
        let bench = try Bench({ $0.takesWebSockets = true })
        let client = try receiveBuffer.map { try Line(to: bench.worker.address, receiveBuffer: $0) } ?? bench.client()
        try client.send(WebSocketTests.handshake + "\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "\r\n\r\n")
        try upstream.send(WebSocketTests.acceptance + "\r\n")
        #expect(try client.receiveHead().status == 101)
        return (bench, client, upstream)
    }

    private func header(_ count: Int, masked: Bool) -> [UInt8] {
        let length = withUnsafeBytes(of: UInt64(count).bigEndian) { [UInt8]($0) }
        return masked ? [0x82, 255] + length + [1, 2, 3, 4] : [0x82, 127] + length
    }

    /// A frame whose payload shows each displaced byte.
    private func frame(_ count: Int, masked: Bool, seed: Int) -> [UInt8] {
        header(count, masked: masked) + (0..<count).map { UInt8(truncatingIfNeeded: ($0 &+ seed) &* 31 >> 3) }
    }

    private func finish(_ bench: Bench, _ lines: Line...) {
        for line in lines { line.close() }
        #expect(bench.worker.census { $0.isAtRest }.isAtRest)
        bench.end()
    }

    /// Sends both at the same time, each as fast as it goes.
    private func cross(_ client: Line, _ fromClient: [UInt8], _ upstream: Line, _ fromServer: [UInt8]) throws {
        var sent = (client: 0, upstream: 0)
        var received: (client: [UInt8], upstream: [UInt8]) = ([], [])
        func some(_ bytes: [UInt8], _ start: Int) -> [UInt8] { Array(bytes[start..<min(start + 100_000, bytes.count)]) }
        while received.client.count < fromServer.count || received.upstream.count < fromClient.count {
            sent.client += client.sendWhatGoes(some(fromClient, sent.client), waiting: 0)
            sent.upstream += upstream.sendWhatGoes(some(fromServer, sent.upstream), waiting: 0)
            var moves = false
            for _ in 0..<3_000 where !moves {
                moves =
                    client.isReady(milliseconds: 1) || upstream.isReady(milliseconds: 9) || sent.client < fromClient.count
                    || sent.upstream < fromServer.count
            }
            guard moves else { throw TestFault("stalls after \(received.client.count) and \(received.upstream.count) bytes") }
            if client.isReady(milliseconds: 0) { received.client += try client.receive() ?? [] }
            if upstream.isReady(milliseconds: 0) { received.upstream += try upstream.receive() ?? [] }
        }
        #expect(received.client == fromServer)
        #expect(received.upstream == fromClient)
    }

    @Test func longFramesPassUnchangedBothWaysAtOnce() throws {
        let (bench, client, upstream) = try open()
        var fromClient: [UInt8] = [], fromServer: [UInt8] = []
        for (number, size) in [70_000, 5, 1_500_000, 65_536, 3_000_000, 0, 300_000].enumerated() {
            fromClient += frame(size, masked: true, seed: number)
            fromServer += frame(size, masked: false, seed: 1_000 + number)
        }
        try cross(client, fromClient, upstream, fromServer)
        // The end is read as ever.
        let asked: [UInt8] = [0x88, 0x82, 0, 0, 0, 0, 3, 232], answered: [UInt8] = [0x88, 2, 3, 232]
        try client.send(asked)
        #expect(try upstream.take(asked.count) == asked)
        try upstream.send(answered)
        #expect(try client.takeAll() == answered)
        #expect(try upstream.takeAll() == [])
        finish(bench, client, upstream)
    }

    @Test func aSlowReaderGetsALongFrameWhole() throws {
        let (bench, client, upstream) = try open(receiveBuffer: 4_096)
        let frames = frame(2_000_000, masked: false, seed: 1) + frame(300, masked: false, seed: 2)
        try cross(client, frame(400_000, masked: true, seed: 3), upstream, frames)
        finish(bench, client, upstream)
    }

    /// Bytes that still wait would otherwise be missing in the middle of what the client gets.
    @Test(arguments: [false, true])
    func aLongFrameWhoseEndIsLostNeverLooksWhole(_ clientEnds: Bool) throws {
        let (bench, client, upstream) = try open(receiveBuffer: 4_096)
        let count = 32 << 20
        try upstream.send(header(count, masked: false))
        var sent = 0
        let piece = [UInt8](repeating: 7, count: 1 << 16)
        while sent < count {
            let more = upstream.sendWhatGoes(piece, waiting: 100)
            sent += more
            guard more == piece.count else { break }
        }
        #expect(sent < count)
        if clientEnds { client.finishSending() } else { upstream.reset() }
        var received: [UInt8] = []
        while let more = try? client.receive() { received += more }
        #expect(received.count < count && received.dropFirst(10).allSatisfy { $0 == 7 })
        finish(bench, client, upstream)
    }

    /// It has 900 ms for that. Where a busy machine takes longer, it is cut, and the test begins again.
    @Test func aDrainWaitsForTheEndOfALongFrame() throws {
        let whole = frame(1_000_000, masked: false, seed: 5)
        for attempt in 1...5 {
            let (bench, client, upstream) = try open()
            try upstream.send(Array(whole[..<200_000]))
            var received: [UInt8] = try client.take(200_000)
            let start = EventLoop.now().monotonic
            bench.worker.mailbox.post(.drain(within: 60_000))
            try? upstream.send(Array(whole[200_000...]))
            while let more = try? client.receive() { received += more }
            let isSlow = EventLoop.now().monotonic.nanoseconds(since: start) > 500_000_000
            for line in [client, upstream] { line.close() }
            bench.worker.join()
            bench.upstream.close()
            if isSlow, received.count < whole.count, attempt < 5 { continue }
            #expect(received.prefix(whole.count).elementsEqual(whole))
            return #expect(received.dropFirst(whole.count).elementsEqual([0x88, 12, 0x03, 0xE9] + Array("going away".utf8)))
        }
    }
}
