import Foundation
import HTTP
import Testing
import Wire

/// The number of inputs that are made of one seed: the same ones each time, on any machine.
let fuzzRounds = ProcessInfo.processInfo.environment["TOLLGATE_FUZZ_ROUNDS"].flatMap(Int.init) ?? 20_000

/// Makes messages out of pieces that matter, and then breaks some of them.
struct MessageMaker {
    var random: SplitMix64

    private static let lines = [
        "Host: a", "Host: example.test:80", "host:b", "Content-Length: 5", "Content-Length: 05", "Content-Length: 5, 5",
        "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "transfer-encoding:CHUNKED",
        "Connection: close", "Connection: keep-alive, X-A", "Connection: content-length", "X-A: 1", "x-a:",
        "Expect: 100-continue", "TE: trailers", "Authorization: Bearer abc", "Cookie: a=b; c=d", "Content_Length: 1",
        "X-Long: \(String(repeating: "y", count: 90))",
        "Accept-Encoding: gzip, deflate, br", "Upgrade: h2c", ": x", "X : y", " folded",
    ]
    private static let starts = [
        "GET / HTTP/1.1", "POST /a/b?c=d HTTP/1.1", "GET http://a/x HTTP/1.1", "OPTIONS * HTTP/1.1", "HEAD /x HTTP/1.0",
        "PUT /\(String(repeating: "z", count: 70)) HTTP/1.1", "BREW /pot HTTP/1.1", "GET / HTTP/2.0", "GET  / HTTP/1.1",
    ]
    private static let statusLines = [
        "HTTP/1.1 200 OK", "HTTP/1.0 404 Not Found", "HTTP/1.1 204 No Content", "HTTP/1.1 100 Continue",
        "HTTP/1.1 304 ",
        "HTTP/1.1 500", "HTTP/1.1 101 Switching Protocols", "HTTP/1.1 2xx OK",
    ]

    mutating func request() -> [UInt8] { message(Self.starts) }
    mutating func response() -> [UInt8] { message(Self.statusLines) }

    private mutating func message(_ starts: [String]) -> [UInt8] {
        var lines = [starts.randomElement(using: &random)!]
        for _ in 0..<Int.random(in: 0...6, using: &random) { lines.append(Self.lines.randomElement(using: &random)!) }
        let end = Bool.random(using: &random) ? "\r\n\r\n" : "\r\n\r\nrest"
        return broken(Array((lines.joined(separator: "\r\n") + end).utf8))
    }

    /// In two of three cases `bytes` with one to three random edits.
    mutating func broken(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        guard !bytes.isEmpty, Int.random(in: 0..<3, using: &random) > 0 else { return bytes }
        for _ in 0..<Int.random(in: 1...3, using: &random) { edit(&bytes) }
        return bytes
    }

    private mutating func edit(_ bytes: inout [UInt8]) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        let special: [UInt8] = [0, 9, 10, 13, 32, 44, 58, 59, 127, 128, 255, UInt8(ascii: "0")]
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes[place] = special.randomElement(using: &random)!
        case 2: bytes.insert(special.randomElement(using: &random)!, at: place)
        case 3: if bytes.count > 1 { bytes.remove(at: place) }
        default: bytes.insert(contentsOf: bytes[place..<min(place + 9, bytes.count)], at: place)
        }
    }
}

@Suite struct HeadFuzzTests {
    @Test(
        "Whatever comes as a request is read the same in any split, and what is accepted survives being written again",
        arguments: 1...3)
    func requests(seed: UInt64) {
        var maker = MessageMaker(random: SplitMix64(seed: seed))
        var accepted = 0
        for _ in 0..<fuzzRounds {
            let bytes = maker.request()
            let whole = Described.request(bytes.rawBytes)
            let cut = Int.random(in: 0...bytes.count, using: &maker.random)
            let early = Described.request(bytes.rawBytes.extracting(0..<cut))
            guard early == "incomplete" || firstLines(early) == firstLines(whole) else {
                Issue.record("seed \(seed), cut at \(cut): \(ByteNotation.text(bytes)): \(early) but then \(whole)")
                return
            }
            guard whole.hasPrefix("accepted") else { continue }
            accepted += 1
            let again = rewritten(bytes)
            guard Described.request(again.rawBytes) == firstLines(whole) else {
                Issue.record(
                    "seed \(seed): \(ByteNotation.text(bytes)) and \(ByteNotation.text(again)) are read differently")
                return
            }
        }
        #expect(accepted > 20)
    }

    @Test("Whatever comes as a response is read the same in any split", arguments: 1...2)
    func responses(seed: UInt64) {
        var maker = MessageMaker(random: SplitMix64(seed: seed))
        var accepted = 0
        for _ in 0..<fuzzRounds {
            let bytes = maker.response()
            let method = Method.allCases.randomElement(using: &maker.random)!
            let whole = Described.response(bytes.rawBytes, method: method)
            let cut = Int.random(in: 0...bytes.count, using: &maker.random)
            let early = Described.response(bytes.rawBytes.extracting(0..<cut), method: method)
            guard early == "incomplete" || firstLines(early) == firstLines(whole) else {
                Issue.record("seed \(seed), cut at \(cut): \(ByteNotation.text(bytes)): \(early) but then \(whole)")
                return
            }
            if whole.hasPrefix("accepted") { accepted += 1 }
        }
        #expect(accepted > 20)
    }

    @Test("Random bytes never trap a parser", arguments: 1...2)
    func noise(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        for _ in 0..<fuzzRounds {
            let bytes = (0..<Int.random(in: 0...200, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            _ = Described.request(bytes.rawBytes)
            _ = Described.request((Array("GET / HTTP/1.1\r\n".utf8) + bytes).rawBytes)
            _ = Described.response((Array("HTTP/1.1 200 OK\r\n".utf8) + bytes).rawBytes, method: .get)
            _ = Described.proxy(bytes.rawBytes)
        }
    }

    /// Without the bytes behind the head.
    private func firstLines(_ text: String) -> String {
        text.split(separator: "\n").filter { !$0.hasPrefix("rest ") }.joined(separator: "\n")
    }

    /// The request in `bytes`, written anew from what was parsed, in the plainest way.
    private func rewritten(_ bytes: [UInt8]) -> [UInt8] {
        var head = RequestHead()
        let raw = bytes.rawBytes
        _ = head.parse(raw, limits: HeadLimits())
        var out = raw[head.methodText].array + [32] + raw[head.target].array
        out += Array(" HTTP/1.\(head.minorVersion)\r\n".utf8)
        for index in 0..<head.fields.count {
            let field = head.fields[index]
            out += raw[field.name].array + Array(": ".utf8) + raw[field.value].array + [13, 10]
        }
        return out + [13, 10]
    }
}
