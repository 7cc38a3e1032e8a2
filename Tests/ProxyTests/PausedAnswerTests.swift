import Gate
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Calls over HTTP/2 on both sides, whose request and answer wait at the same time.
@Suite(.ownThread, .timeLimit(.minutes(1)))
struct PausedAnswerTests {
    /// The mark that bytes of the answer wait at the upstream's end is what reads them on once the client's connection has room. Content of
    /// the request for which the upstream has no window may come before that, while the connection has some room already.
    @Test func contentThatWaitsForTheUpstreamDoesNotStrandTheAnswer() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        var worker = try SteppedWorker(
            [HTTP2Bench.rule], upstreams: [HTTP2Bench.snapshot([listener.localAddress()])], allowsHTTP2: true)
        defer {
            worker.end()
            listener.close()
        }
        // POST / of http://a
        let head: [UInt8] = [0x83, 0x84, 0x86, 0x01, 0x01, UInt8(ascii: "a")]
        let client = try Line(to: worker.address)
        try client.send(Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + HTTP2Upstream.frame(4, 0, 0) + HTTP2Upstream.frame(1, 4, 1, head))
        let upstream = try worker.acceptHTTP2(listener, settings: [(4, 0)])
        _ = try upstream.request()
        var found: (call: ExchangeIndex, end: UpstreamIndex)?
        for index in worker.worker.exchanges.indices where worker.worker.exchanges[index].state.phase == .relaying {
            found = (index, worker.worker.exchanges[index].attempt.upstream.index)
        }
        let (call, end) = try #require(found)
        worker.worker.upstreams.connections[end].stream?.isPaused = true
        try client.send(HTTP2Upstream.frame(0, 0, 1, [120]))
        try worker.turn { $0.exchanges[call].record.bytesIn == 1 }
        let isPaused = worker.worker.upstreams.connections[end].stream?.isPaused
        #expect(isPaused == true)
        client.close()
    }
}
