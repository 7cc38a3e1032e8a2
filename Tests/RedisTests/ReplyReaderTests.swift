import TestThreads
import Testing
import Wire

@testable import Redis

extension RedisReply {
    /// The reply as text: `[1, "two", nil, !ERR no, +OK]`.
    var text: String {
        var at = 0
        return text(from: &at)
    }

    private func text(from at: inout Int) -> String {
        defer { at += 0 }
        let index = at
        at += 1
        switch nodes[index] {
        case .integer(let value): return "\(value)"
        case .null: return "nil"
        case .status: return "+" + bytes(index).text
        case .error: return "!" + bytes(index).text
        case .bulk: return "\"" + bytes(index).text + "\""
        case .array(let count):
            var parts: [String] = []
            for _ in 0..<count { parts.append(text(from: &at)) }
            return "[" + parts.joined(separator: ", ") + "]"
        }
    }
}

extension RedisReplyReader {
    mutating func feed(_ bytes: some Sequence<UInt8>) {
        var buffer = ByteBuffer()
        buffer.append(Array(bytes))
        feed(buffer)
    }

    /// All complete replies, and the reason if the stream is broken.
    mutating func readAll() -> (replies: [String], fault: String?) {
        var replies: [String] = []
        while true {
            switch next() {
            case .complete: replies.append(reply.text)
            case .incomplete: return (replies, nil)
            case .broken(let reason): return (replies, reason)
            }
        }
    }
}

/// The result of feeding `pieces` one after the other.
private func read(_ pieces: [[UInt8]], limits: RedisReplyLimits = RedisReplyLimits()) -> (replies: [String], fault: String?) {
    var reader = RedisReplyReader(limits: limits)
    var replies: [String] = []
    for piece in pieces {
        reader.feed(piece)
        let some = reader.readAll()
        replies += some.replies
        if let fault = some.fault { return (replies, fault) }
    }
    return (replies, nil)
}

/// The bytes whole, byte by byte, and at every split in two.
private func cuts(_ bytes: [UInt8]) -> [[[UInt8]]] {
    [[bytes], bytes.map { [$0] }] + bytes.indices.dropFirst().map { [Array(bytes[..<$0]), Array(bytes[$0...])] }
}

@Suite(.ownThread) struct ReplyReaderTests {
    static let good: [(String, [String])] = [
        ("+OK\r\n", ["+OK"]), ("+\r\n", ["+"]), (":0\r\n", ["0"]), (":-42\r\n", ["-42"]),
        (":9223372036854775807\r\n:-9223372036854775808\r\n", ["9223372036854775807", "-9223372036854775808"]),
        ("-ERR no\r\n", ["!ERR no"]), ("$-1\r\n", ["nil"]), ("*-1\r\n", ["nil"]), ("$0\r\n\r\n", ["\"\""]),
        ("$5\r\na\r\nbc\r\n", ["\"a\r\nbc\""]), ("*0\r\n", ["[]"]),
        ("*4\r\n:1\r\n:1700000000000000\r\n:0\r\n:250\r\n", ["[1, 1700000000000000, 0, 250]"]),
        ("*3\r\n$3\r\none\r\n*2\r\n:1\r\n*0\r\n$-1\r\n+PONG\r\n", ["[\"one\", [1, []], nil]", "+PONG"]),
        ("*2\r\n-NOSCRIPT x\r\n+OK\r\n", ["[!NOSCRIPT x, +OK]"]),
        ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", ["[[[[[[[7]]]]]]]"]),
    ]

    @Test(arguments: good)
    func `replies are read however they are cut`(_ stream: String, _ replies: [String]) {
        for pieces in cuts(Array(stream.utf8)) {
            let found = read(pieces)
            #expect(found.replies == replies && found.fault == nil, "\(pieces.map(\.count))")
        }
    }

    @Test(arguments: good)
    func `half a reply is no reply`(_ stream: String, _ replies: [String]) {
        let found = read([Array(stream.utf8.dropLast())])
        #expect(found.replies == replies.dropLast() && found.fault == nil)
    }

    static let bad: [(String, String)] = [
        ("HTTP/1.1 400 Bad Request\r\n", #"Protocol error, got "H" as reply type byte"#),
        (":1\r\n\r\n", #"Protocol error, got "\r" as reply type byte"#),
        (":one\r\n", "Bad integer value"), (":9223372036854775808\r\n", "Bad integer value"), (":\r\n", "Bad integer value"),
        ("$x\r\n", "Bad bulk string length"), ("$-2\r\n", "Bulk string length out of range"),
        ("*x\r\n", "Bad multi-bulk length"), ("*-2\r\n", "Multi-bulk length out of range"),
        ("*2147483648\r\n", "Multi-bulk length out of range"),
        ("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "No support for nested multi bulk replies with depth > 7"),
        ("$3\r\nabcde", "a bulk string does not end where its length says"),
        ("*2\r\n:1\r\n$1\r\nab\r\n", "a bulk string does not end where its length says"),
        ("\u{16}\u{3}\u{1}", #"Protocol error, got "\x16" as reply type byte"#),
    ]

    @Test(arguments: bad)
    func `an invalid reply breaks the stream for good`(_ stream: String, _ reason: String) {
        for pieces in cuts(Array(stream.utf8)) {
            let found = read(pieces + [Array("+OK\r\n".utf8)])
            #expect(found.fault == reason, "\(pieces.map(\.count))")
        }
        var reader = RedisReplyReader()
        reader.feed(stream.utf8)
        _ = reader.readAll()
        reader.feed("+OK\r\n".utf8)
        #expect(reader.readAll().fault != nil)
    }

    @Test func `a reply that does not end is given up at its bound`() {
        var limits = RedisReplyLimits()
        limits.bytes = 1_000
        limits.nodes = 10
        let fault = "a reply of more than 1000 bytes or 10 values"
        let endless: [[UInt8]] = [
            Array("$999999999\r\n".utf8), Array("+".utf8), Array("*1000000\r\n".utf8), Array("*2\r\n:1\r\n$999999\r\n".utf8),
        ]
        for (index, start) in endless.enumerated() {
            let more = Array((index == 2 ? ":1\r\n" : "xxxx").utf8)
            var fed = 0
            var reader = RedisReplyReader(limits: limits)
            reader.feed(start)
            var found = reader.readAll()
            while found.fault == nil, fed < 10_000 {
                reader.feed(more)
                fed += more.count
                found = reader.readAll()
            }
            #expect(found.replies.isEmpty && found.fault == fault)
            #expect(fed <= 1_004)
        }
        // Many texts, each of them small enough.
        let many = "*5\r\n" + String(repeating: "$400\r\n\(String(repeating: "x", count: 400))\r\n", count: 5)
        #expect(read([Array(many.utf8)], limits: limits).fault == fault)
    }

    @Test func `the same memory serves the next reply`() {
        var reader = RedisReplyReader()
        reader.feed("*2\r\n:1\r\n$3\r\nabc\r\n+OK\r\n:5\r\n".utf8)
        #expect(reader.next() == .complete)
        #expect(reader.reply.list == [.array(count: 2), .integer(1), .bulk(Slice(start: 0, count: 3))])
        #expect(reader.reply.integer(1) == 1 && reader.reply.integer(0) == nil && reader.reply.integer(3) == nil)
        #expect(reader.reply.bytes(2).text == "abc" && reader.reply.bytes(1).isEmpty && reader.reply.bytes(9).isEmpty)
        #expect(reader.next() == .complete)
        #expect(reader.reply.list == [.status(Slice(start: 0, count: 2))])
        #expect(reader.next() == .complete)
        #expect(reader.reply.list == [.integer(5)])
        #expect(reader.next() == .incomplete)
        #expect(reader.reply.list.isEmpty)
    }

    /// Damaged streams: never a trap, the same outcome however they are cut, and never more than what fits the limits.
    @Test func `garbage is survived and read alike at every cut`() {
        var random = SplitMix64(seed: 11)
        let alphabet = Array("+-:$*0123\r\n\r\n abc".utf8)
        for round in 0..<4_000 {
            var bytes: [UInt8] = []
            if round % 2 == 0 {
                bytes = Array(Self.good[Int(random.next() % UInt64(Self.good.count))].0.utf8)
                for _ in 0..<(1 + random.next() % 3) {
                    bytes[Int(random.next() % UInt64(bytes.count))] = alphabet[Int(random.next() % UInt64(alphabet.count))]
                }
            } else {
                bytes = (0..<(random.next() % 40)).map { _ in alphabet[Int(random.next() % UInt64(alphabet.count))] }
            }
            let whole = read([bytes])
            let single = read(bytes.map { [$0] })
            let cut = bytes.isEmpty ? 0 : Int(random.next() % UInt64(bytes.count))
            let halves = read([Array(bytes[..<cut]), Array(bytes[cut...])])
            #expect(whole == single && whole == halves, "\(bytes)")
        }
    }
}

extension RedisReply {
    fileprivate var list: [RedisNode] { (0..<nodes.count).map { nodes[$0] } }
}
