import Testing
import Wire

@testable import HTTP

/// `ServerConnection` as the server's side of one stream: content comes without framing, and the answer goes without it.
@Suite struct StreamConnectionTests {
    /// A stream with this request, and its input.
    private struct Stream: ~Copyable {
        var http = ServerConnection()
        var input = ByteBuffer()
        var head = RequestHead()
        var trailers = FieldTable()

        init(_ request: String) {
            #expect(head.parse(Array(request.utf8).rawBytes, limits: HeadLimits()) == .complete)
            head.isHTTP2 = true
            http.streamBegan(head)
        }

        var isAtEnd: Bool { http.isBodyAtEnd }

        mutating func next() -> ServerEvent { http.next(&input, &head, &trailers, HeadLimits()) }

        mutating func receive(_ content: String) {
            input.append(content)
            http.message.arrived(content.utf8.count)
        }
    }

    private static let post = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"

    @Test("Content that looks like chunks is content")
    func content() {
        var stream = Stream(Self.post)
        stream.receive("0\r\n\r\n")
        #expect(stream.next() == .content(5))
        stream.input.discard(5)
        #expect(stream.next() == .needMore)
        #expect(stream.isAtEnd == false)
        stream.http.message.ended()
        #expect(stream.isAtEnd == true)
        #expect(stream.next() == .end)
        #expect(stream.http.reading == .nothing)
    }

    @Test("The last of the content that a length announces waits for the end of the stream")
    func lastPiece() {
        var stream = Stream("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n")
        stream.receive("hel")
        #expect(stream.next() == .content(3))
        stream.input.discard(3)
        stream.receive("lo")
        #expect(stream.next() == .needMore)
        stream.http.message.ended()
        #expect(stream.next() == .content(2))
        stream.input.discard(2)
        #expect(stream.next() == .end)
    }

    @Test("Trailers come behind all content, and before the end")
    func trailers() {
        var stream = Stream(Self.post)
        stream.receive("hello")
        stream.input.append("x-end: yes\r\n\r\n" as StaticString)
        stream.http.message.trailersArrived(length: 14)
        stream.http.message.ended()
        #expect(stream.next() == .content(5))
        stream.input.discard(5)
        #expect(stream.next() == .trailers(length: 14))
        #expect(stream.trailers.count == 1)
        stream.input.discard(14)
        #expect(stream.next() == .end)
    }

    @Test("An answer has no framing and no Connection field, and its end does not depend on the connection's")
    func answer() {
        var stream = Stream("GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        #expect(stream.http.sendHead(BodyFraming.chunked.relayed(to: .http2)) == .implied)
        let marks = [stream.http.framesContent, stream.http.endsWithConnection, stream.http.sendsKnownLength]
        #expect(marks == [false, false, false])
        var out = ByteBuffer()
        stream.http.sendContent([65].rawBytes, into: &out)
        stream.http.sendEnd(into: &out)
        #expect(out.readable.text == "A")
        #expect(stream.http.answerSent() == .readHead)
    }

    @Test("An answer before the end of the request ends the stream")
    func early() {
        var stream = Stream(Self.post)
        stream.http.bodyAbandoned()
        #expect(stream.http.sendHead(.length(0)) == .implied)
        #expect(stream.http.answerSent() == .discardBody, "the driver of a stream ends it")
    }
}
