import Gate
import Glibc
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// How connections of clients end: what was answered before arrives whole.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct ClosingTests {
    /// The close of a connection on which bytes wait unread is a reset, and a reset takes what the client has not read.
    @Test func anAnswerThatIsStillBeingReadSurvivesTheRefusalBehindIt() throws {
        let bench = try Bench({
            $0.path = "/large"
            $0.isPrefix = false
        })
        defer { bench.end() }
        let client = try bench.client()
        let upload = String(repeating: "b", count: 300_000)
        try client.send(
            "GET /large HTTP/1.1\r\nHost: h\r\n\r\nPOST /nowhere HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n" + upload)
        client.finishSending()
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        let content = String(repeating: "p", count: 400_000)
        try upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 400000\r\n\r\n" + content)
        #expect(bench.worker.census { $0.clients == 0 }.clients == 0)
        let all = try client.receiveAll()
        #expect(all.end == .closed)
        #expect(all.text.utf8.count > 400_000 && all.text.contains("pHTTP/1.1 404 "))
        client.close()
        upstream.close()
    }

    @Test func anAnswerSurvivesTheBrokenEndOfTheBodyThatItDidNotWaitFor() throws {
        let bench = try Bench()
        defer { bench.end() }
        let client = try bench.client()
        try client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receive(until: "1\r\na\r\n")
        try upstream.send(ExchangeTests.ok)
        #expect(try client.receiveMessage().body == "ok")
        try client.send("0\r\nno trailer\r\n\r\n" + String(repeating: "x", count: 500_000))
        client.finishSending()
        let all = try client.receiveAll()
        #expect(all.text == "" && all.end == .closed)
        client.close()
        upstream.close()
    }

    enum Cut: CaseIterable { case sendTimeout, sendTimeoutBehindTheEnd, endOfTheDrain }

    /// To clients of HTTP/1.0 the end of the connection is the end of an answer of unknown length.
    @Test(arguments: Cut.allCases)
    func anAnswerThatEndsWithTheConnectionAndIsCutLooksCut(_ cut: Cut) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        defer { listener.close() }
        var stepped = try SteppedWorker(forwardingTo: listener)
        let client = try Line(to: stepped.address, receiveBuffer: 4_096)
        try client.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n")
        let upstream = try stepped.accept(listener)
        try stepped.turn(untilReadable: upstream)
        _ = try upstream.receiveMessage()
        try upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        try stepped.turn(untilReadable: client)
        if cut != .endOfTheDrain {
            // The kernel takes little, so that the rest of the answer waits in the gateway.
            var size: Int32 = 4_096
            let socket = stepped.worker.downstream.clients[SlabIndex(number: 0)].connection.socket
            setsockopt(socket.descriptor, SOL_SOCKET, SO_SNDBUF, &size, socklen_t(MemoryLayout<Int32>.size))
            let end = cut == .sendTimeoutBehindTheEnd ? "0\r\n\r\n" : ""
            try upstream.send("9c40\r\n" + String(repeating: "b", count: 40_000) + "\r\n" + end)
            try upstream.waitUntilDelivered()
            try stepped.turn { $0.downstream.clients[SlabIndex(number: 0)].hasUnsent }
            #expect(stepped.worker.exchanges.count == (cut == .sendTimeout ? 1 : 0))
            stepped.pass(milliseconds: 60_020)
            #expect(stepped.worker.downstream.clients.count == 0)
        }
        stepped.end()
        #expect(try client.receiveAll().end == .reset)
        client.close()
        upstream.close()
    }
}
