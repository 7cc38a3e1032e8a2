import HTTP
import Testing
import Wire

@Suite struct WebSocketHandshakeTests {
    private static let key = "dGhlIHNhbXBsZSBub25jZQ=="
    private static let fields = [
        "Host: a", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: \(key)",
    ]

    /// The token of a handshake and the offer to the upstream, or its fault.
    private func read(_ fields: [String], line: String = "GET /chat HTTP/1.1", readsToken: Bool = true) -> String {
        let bytes = Array(([line] + fields).joined(separator: "\r\n").utf8) + Array("\r\n\r\n".utf8)
        var head = RequestHead()
        guard head.parse(bytes.rawBytes, limits: HeadLimits()) == .complete else { return "no head" }
        guard WebSocketHandshake.isAsked(by: head, bytes.rawBytes) else { return "no handshake" }
        do throws(WebSocketHandshake.Fault) {
            let handshake = try WebSocketHandshake(head, bytes.rawBytes, readsToken: readsToken)
            var out = ByteBuffer()
            handshake.write(head, bytes.rawBytes, key: "none".utf8Array.rawBytes, into: &out)
            let offer = out.readable.text.split(separator: "\r\n").filter { $0.contains("Protocol") || $0.contains("Extensions") }
            #expect(out.readable.text.hasSuffix("\r\n\r\n"))
            let token = handshake.token.map { bytes.rawBytes[$0].text } ?? "-"
            return ([token] + offer.map(String.init)).joined(separator: " | ")
        } catch {
            return "\(error)"
        }
    }

    private func with(_ more: String...) -> [String] { Self.fields + more }

    private func replacing(_ name: String, _ field: String?) -> [String] {
        Self.fields.compactMap { $0.hasPrefix(name) ? field : $0 }
    }

    @Test func aHandshakeIsAGetWithItsFields() {
        #expect(read(Self.fields) == "-")
        #expect(read(replacing("Upgrade", "upgrade: h2c, WebSocket")) == "-")
        #expect(read(replacing("Connection", "Connection: keep-alive, upgrade")) == "-")
        #expect(read(replacing("Upgrade", "Upgrade: h2c")) == "no handshake")
        #expect(read(replacing("Upgrade", nil)) == "no handshake")
        #expect(read(Self.fields, line: "POST /chat HTTP/1.1") == "malformed")
        #expect(read(Self.fields, line: "GET /chat HTTP/1.0") == "malformed")
        #expect(read(replacing("Connection", "Connection: keep-alive")) == "malformed")
        #expect(read(replacing("Connection", nil)) == "malformed")
    }

    @Test func aBodyIsMalformed() {
        #expect(read(with("Content-Length: 5")) == "malformed")
        #expect(read(with("Transfer-Encoding: chunked")) == "malformed")
        #expect(read(with("Content-Length: 0")) == "-")
    }

    @Test func onlyVersion13IsSpoken() {
        #expect(read(replacing("Sec-WebSocket-Version", "Sec-WebSocket-Version: 8")) == "version")
        #expect(read(replacing("Sec-WebSocket-Version", "Sec-WebSocket-Version: 13, 8")) == "version")
        #expect(read(replacing("Sec-WebSocket-Version", nil)) == "malformed")
        #expect(read(with("sec-websocket-version: 13")) == "malformed")
    }

    @Test(arguments: [
        "", "AAAA", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQAA", "dGhlIHNhbXBsZSBub25j====", "dGhlIHNhbXBsZSBub25jZ-==",
    ])
    func aKeyIsBase64OfSixteenBytes(_ key: String) {
        #expect(read(replacing("Sec-WebSocket-Key", "Sec-WebSocket-Key: \(key)")) == "malformed")
        #expect(read(with("Sec-WebSocket-Key: \(Self.key)")) == "malformed")
    }

    @Test(arguments: [
        ("bearer, abc.def", "abc.def"), ("bearer,abc,chat", "abc | Sec-WebSocket-Protocol: chat"),
        ("bearer , abc , , v2.chat,v1.chat", "abc | Sec-WebSocket-Protocol: v2.chat, v1.chat"), ("bearer", ""),
        ("chat, other", "- | Sec-WebSocket-Protocol: chat, other"), ("Bearer, abc", "- | Sec-WebSocket-Protocol: Bearer, abc"),
        ("chat, bearer, abc", "malformed"), ("bearer, abc, bearer", "malformed"), ("a b", "malformed"), ("bearer, a=b@c", "malformed"),
    ])
    func theTokenStandsBehindBearerAndGoesNoFurther(_ list: String, _ outcome: String) {
        #expect(read(with("Sec-WebSocket-Protocol: \(list)")) == outcome)
    }

    @Test func theListMayHaveSeveralLines() {
        #expect(read(with("Sec-WebSocket-Protocol: bearer", "Sec-WebSocket-Protocol: abc, chat")) == "abc | Sec-WebSocket-Protocol: chat")
        #expect(read(with("Sec-WebSocket-Protocol:", "Sec-WebSocket-Protocol: chat")) == "- | Sec-WebSocket-Protocol: chat")
    }

    @Test func aListThatIsNotForTheGatewayPassesAsItIs() {
        #expect(read(with("Sec-WebSocket-Protocol: bearer, abc"), readsToken: false) == "- | Sec-WebSocket-Protocol: bearer, abc")
    }

    @Test func extensionsAreOffered() {
        #expect(
            read(with("Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", "Sec-WebSocket-Extensions: x"))
                == "- | Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, x")
    }

    // MARK: the answer

    /// A stand-in for SHA-1, whose result is known for the key.
    private static func digest(_ bytes: RawSpan) -> [UInt8] {
        #expect(bytes.text == key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
        // RFC 6455 §1.3.
        return [0xb3, 0x7a, 0x4f, 0x2c, 0xc0, 0x62, 0x4f, 0x16, 0x90, 0xf6, 0x46, 0x06, 0xcf, 0x38, 0x59, 0x45, 0xb2, 0xbe, 0xc4, 0xea]
    }

    private static let accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    private static let answer = ["Upgrade: websocket", "Connection: Upgrade", accept]

    /// Whether the answer accepts an offer of `chat`, `v2` and the extension `deflate`.
    private func accepts(_ fields: [String], line: String = "HTTP/1.1 101 Switching Protocols") -> String {
        let offer = Array(
            "Sec-WebSocket-Key: \(Self.key)\r\nSec-WebSocket-Protocol: chat, v2\r\nSec-WebSocket-Extensions: deflate; x=1\r\n\r\n".utf8)
        let bytes = Array(([line] + fields).joined(separator: "\r\n").utf8) + Array("\r\n\r\n".utf8)
        var head = ResponseHead()
        let outcome = head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits(), mayUpgrade: true)
        guard outcome == .complete else { return "\(outcome)" }
        let made = WebSocketOffer(offer.rawBytes)
        let accept = made.accept(offer.rawBytes, sha1: Self.digest)
        let acceptance = WebSocketAcceptance(head, bytes.rawBytes, to: made, offer.rawBytes, accept: accept.readable)
        guard let acceptance else { return "no" }
        return "yes" + (acceptance.hasSubprotocol ? " protocol" : "") + (acceptance.hasExtensions ? " extensions" : "")
    }

    @Test func anAcceptanceAnswersTheKey() {
        #expect(accepts(Self.answer) == "yes")
        #expect(accepts(["upgrade: WebSocket", "connection: upgrade, keep-alive", Self.accept, "Content-Length: 0"]) == "yes")
        for missing in Self.answer.indices {
            var fields = Self.answer
            fields.remove(at: missing)
            #expect(accepts(fields) == "no")
        }
        #expect(accepts(Self.answer + [Self.accept]) == "no")
        #expect(accepts(["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOO="]) == "no")
        #expect(accepts(["Upgrade: h2c", "Connection: Upgrade", Self.accept]) == "no")
        #expect(accepts(Self.answer, line: "HTTP/1.0 101 Switching Protocols") == "no")
        #expect(accepts(Self.answer, line: "HTTP/1.1 200 OK") == "no")
        #expect(accepts(Self.answer + ["Content-Length: 5"]).hasPrefix("invalid"))
    }

    @Test func anAcceptanceChoosesFromTheOffer() {
        #expect(accepts(Self.answer + ["Sec-WebSocket-Protocol: v2"]) == "yes protocol")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Protocol: V2"]) == "no")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Protocol: bearer"]) == "no")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Protocol: chat, v2"]) == "no")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: chat"]) == "no")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Extensions: deflate; y=2"]) == "yes extensions")
        #expect(accepts(Self.answer + ["Sec-WebSocket-Extensions: deflate, other"]) == "no")
    }

    @Test func a101WithoutARequestForItIsAFault() {
        let bytes = Array((["HTTP/1.1 101 Switching Protocols"] + Self.answer).joined(separator: "\r\n").utf8) + Array("\r\n\r\n".utf8)
        for mayUpgrade in [false, true] {
            var connection = ClientConnection()
            connection.requestSent(.get, mayUpgrade: mayUpgrade)
            var input = ByteBuffer()
            input.append(bytes)
            var head = ResponseHead()
            var trailers = FieldTable()
            let event = connection.next(&input, &head, &trailers, HeadLimits())
            #expect(event == (mayUpgrade ? .upgraded : .fault(HTTPFault(502, .upgraded))))
            let isReusable = connection.isReusable
            #expect(!isReusable)
        }
    }

    @Test func aKeyOfOurOwnIsAKey() {
        var out = ByteBuffer()
        WebSocketKey.write(0x0706_0504_0302_0100, 0xFFFE_FDFC_FBFA_F9F8, into: &out)
        #expect(out.readable.text == "AAECAwQFBgf4+fr7/P3+/w==")
        #expect(read(replacing("Sec-WebSocket-Key", "Sec-WebSocket-Key: \(out.readable.text)")) == "-")
    }
}

extension String {
    fileprivate var utf8Array: [UInt8] { Array(utf8) }
}
