import HTTP
import Testing
import Wire

@testable import Proxy

/// A request of unknown length is kept for HTTP/2, and its connection turns out to speak HTTP/1.1, or the other way round.
struct RequestFramingTests {
    private static let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

    private static let longTrailers = String(repeating: "X-A: \(String(repeating: "a", count: 1_000))\r\n", count: 10)

    private func exchange(_ text: String, isWhole: Bool, trailers: String = "") -> Exchange {
        var exchange = Exchange()
        exchange.state.forward(isWhole: isWhole)
        exchange.request.hasUnknownLength = true
        exchange.buffers.replay.append(text)
        exchange.buffers.trailers.append(trailers)
        return exchange
    }

    @Test(arguments: [
        ("", false, "", ""), ("hello", false, "", "5\r\nhello\r\n"), ("", true, "", "0\r\n\r\n"), ("hello", true, "", "5\r\nhello\r\n0\r\n\r\n"),
        ("hello", true, "X-A: 1\r\n", "5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n"),
        // More than may come from outside in chunks.
        ("hello", true, longTrailers, "5\r\nhello\r\n0\r\n\(longTrailers)\r\n"),
    ])
    func contentIsFramedAndUnframed(_ content: String, _ isWhole: Bool, _ trailers: String, _ framed: String) {
        var exchange = exchange(Self.head + content, isWhole: isWhole, trailers: trailers)
        exchange.attempt.isForHTTP2 = true
        exchange.reframe()
        let chunks = String(decoding: exchange.buffers.replay.readable.array, as: UTF8.self)
        #expect(chunks == Self.head + framed)
        let (goesOn, isForHTTP2) = (exchange.attempt.isChunked, exchange.attempt.isForHTTP2)
        #expect(goesOn == !isWhole && !isForHTTP2)
        exchange.reframe()
        let plain = String(decoding: exchange.buffers.replay.readable.array, as: UTF8.self)
        let kept = String(decoding: exchange.buffers.trailers.readable.array, as: UTF8.self)
        #expect(plain == Self.head + content && kept == trailers)
        let isChunked = exchange.attempt.isChunked
        #expect(!isChunked)
    }
}
