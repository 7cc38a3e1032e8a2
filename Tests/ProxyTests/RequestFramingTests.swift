import HTTP
import Testing
import Wire

@testable import Proxy

/// A request of unknown length is kept for HTTP/2, and its connection turns out to speak HTTP/1.1, or the other way round.
struct RequestFramingTests {
    private static let head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"

    private static let longTrailers = String(repeating: "X-A: \(String(repeating: "a", count: 1_000))\r\n", count: 10)

    private func attempt(_ text: String, trailers: String) -> Attempt {
        var attempt = Attempt()
        attempt.head.length = Self.head.utf8.count
        attempt.hasUnknownLength = true
        attempt.replay.append(text)
        attempt.trailers.append(trailers)
        return attempt
    }

    @Test(arguments: [
        ("", false, "", ""), ("hello", false, "", "5\r\nhello\r\n"), ("", true, "", "0\r\n\r\n"),
        ("hello", true, "", "5\r\nhello\r\n0\r\n\r\n"),
        ("hello", true, "X-A: 1\r\n", "5\r\nhello\r\n0\r\nX-A: 1\r\n\r\n"),
        // More than may come from outside in chunks.
        ("hello", true, longTrailers, "5\r\nhello\r\n0\r\n\(longTrailers)\r\n"),
    ])
    func contentIsFramedAndUnframed(_ content: String, _ isWhole: Bool, _ trailers: String, _ framed: String) {
        var attempt = attempt(Self.head + content, trailers: trailers)
        attempt.isForHTTP2 = true
        attempt.reframe(isWhole: isWhole)
        let chunks = String(decoding: attempt.replay.readable.array, as: UTF8.self)
        #expect(chunks == Self.head + framed)
        let (goesOn, isForHTTP2) = (attempt.isChunked, attempt.isForHTTP2)
        #expect(goesOn == !isWhole && !isForHTTP2)
        attempt.reframe(isWhole: isWhole)
        let plain = String(decoding: attempt.replay.readable.array, as: UTF8.self)
        let kept = String(decoding: attempt.trailers.readable.array, as: UTF8.self)
        #expect(plain == Self.head + content && kept == trailers)
        let isChunked = attempt.isChunked
        #expect(!isChunked)
    }

    @Test func aBlockBecomesLinesOnAConnectionOfHTTP1() {
        var attempt = Attempt()
        attempt.replay.append("POST / HTTP/1.1\r\nHost: h\r\n")
        attempt.head.block = attempt.replay.count
        attempt.replay.append("\0\u{3}x-a\u{1}b\u{F}\u{10}\u{1}x")
        attempt.head.length = attempt.replay.count
        attempt.replay.append("hello")
        attempt.hasUnknownLength = true
        attempt.isForHTTP2 = true
        attempt.reframe(isWhole: false)
        let text = String(decoding: attempt.replay.readable.array, as: UTF8.self)
        #expect(text == "POST / HTTP/1.1\r\nHost: h\r\nx-a: b\r\ncontent-type: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        // The other way they stay lines, which are read for a stream.
        attempt.reframe(isWhole: false)
        let (block, length) = (attempt.head.block, attempt.head.length)
        #expect(block == 0 && length == text.utf8.count - "5\r\nhello\r\n".utf8.count)
    }
}
