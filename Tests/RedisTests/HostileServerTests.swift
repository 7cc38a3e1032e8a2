import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

/// Servers that violate the protocol.
@Suite(.ownThread) struct HostileServerTests {
    /// The server's first reply, and the log line.
    static let nonsense: [(String, String)] = [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", #"it does not speak Redis's protocol: Protocol error, got "H" as reply type byte"#),
        ("$5\r\nabcdefg\r\n", "it does not speak Redis's protocol: a bulk string does not end where its length says"),
        ("+OK\r\n+OK\r\n", "it does not speak Redis's protocol: a reply without a command"),
        ("+OK\r\n-ERR go away\r\n", "it does not speak Redis's protocol: a reply without a command: ERR go away"),
        (
            "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
            "it does not speak Redis's protocol: No support for nested multi bulk replies with depth > 7"
        ),
    ]

    @Test(arguments: nonsense)
    func `a protocol error ends the connection, and every command has its result`(_ said: String, _ reason: String) throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say(said)
            peer.hearAll()
        }
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(bench.append(["PING"], tag: 1) == .accepted)
        try bench.turn { $0.changes.contains("not connected: " + reason) }
        #expect(bench.answers.count == 1 && bench.answers[0].tag == 1)
        #expect(bench.answers[0].outcome == (said.hasPrefix("+OK") ? .answered : .lost))
    }

    @Test func `an answer that comes byte by byte is an answer`() throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            for character in "*2\r\n:1\r\n$3\r\nabc\r\n" { peer.say(String(character)) }
            peer.hearAll()
        }
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(try bench.ask(["PING"]) == "[1, \"abc\"]")
    }

    @Test func `half an answer is none`() throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say("+OK\r\n*2\r\n:1\r\n")
        }
        var bench = try Bench(server.url)
        try bench.becomeReady()
        for tag in 1...3 as ClosedRange<UInt64> { #expect(bench.append(["PING"], tag: tag) == .accepted) }
        try bench.turn { $0.answers.count == 3 }
        #expect(bench.answers.map(\.outcome) == [.answered, .lost, .lost])
        #expect(bench.changes.last == "not connected: it closed the connection")
    }

    @Test(arguments: ["$999999999\r\n", "+", "*1000000\r\n:1\r\n"])
    func `an endless answer is given up, and nothing grows`(_ start: String) throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say(start)
            let more = String(repeating: start.hasPrefix("*") ? ":1\r\n" : "xxxx", count: 1_000)
            while peer.say(more) {}
        }
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(bench.append(["PING"]) == .accepted)
        try bench.turn { !$0.answers.isEmpty }
        #expect(bench.answers[0].outcome == .lost)
        #expect(
            bench.changes.last == "not connected: it does not speak Redis's protocol: a reply of more than 262144 bytes or 16384 values")
        #expect(bench.redis.input.capacity <= 128 * 1_024)
    }

    @Test func `a server that rejects the connection is retried with a growing backoff`() throws {
        let server = try FakeServer { peer, _ in peer.say("-ERR max number of clients reached\r\n") }
        var bench = try Bench(server.url, scripts: RedisScripts.with(RedisScript(name: "x", source: "return 1")))
        try bench.turn { $0.redis.attempts == 4 }
        #expect(!bench.changes.isEmpty && bench.changes.allSatisfy { $0.hasPrefix("not connected: ") })
        #expect(bench.append(["PING"]) == .notReady)
    }

    @Test(arguments: ["+OK\r\n", ":1\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*0\r\n"])
    func `a greeting that is answered with something else is no greeting`(_ answer: String) throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say(answer)
            peer.hearAll()
        }
        var bench = try Bench(server.url, scripts: RedisScripts.with(RedisScript(name: "x", source: "return 1")))
        try bench.turn { !$0.changes.isEmpty }
        #expect(
            bench.changes == ["not connected: it does not speak Redis's protocol: SCRIPT LOAD is answered with something else than a SHA-1"]
        )
    }

    @Test func `a script that stays missing is reported after one retry`() throws {
        let sha = String(repeating: "a", count: 40)
        let server = try FakeServer { peer, _ in
            while let heard = peer.hear() {
                let text = String(decoding: heard, as: UTF8.self)
                for part in text.split(separator: "*").dropFirst(0) {
                    if part.contains("LOAD") { peer.say("$40\r\n\(sha)\r\n") }
                    if part.contains("EVALSHA") { peer.say("-NOSCRIPT No matching script.\r\n") }
                }
            }
        }
        var scripts = RedisScripts()
        let script = scripts.register(RedisScript(name: "x", source: "return 1"))
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        #expect(bench.call(script, "k", tag: 5) == .accepted)
        try bench.turn { !$0.answers.isEmpty }
        #expect(bench.answers == [Answer(tag: 5, outcome: .refused(.noScript), text: "!NOSCRIPT No matching script.")])
        #expect(bench.redis.inFlight == 0)
    }

    @Test func `a server that closes each connection does not shorten the backoff`() throws {
        let server = try FakeServer { _, _ in }
        var bench = try Bench(server.url)
        try bench.turn { $0.redis.attempts == 5 }
        #expect(bench.answers.isEmpty)
        #expect(server.connections <= 5)
    }

    /// Seeded servers that reply, fail, stall, disconnect and send garbage in any order: every accepted command has one result, in the
    /// end, and the connection always comes back.
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `every command has exactly one result, whatever the server sends`(_ seed: UInt64) throws {
        let server = try FakeServer { peer, number in
            var random = SplitMix64(seed: seed * 1_000 + UInt64(number))
            while let heard = peer.hear() {
                let commands = heard.count { $0 == UInt8(ascii: "*") }
                for _ in 0..<commands {
                    switch random.next() % 60 {
                    case 0: return
                    case 1: peer.say("garbage")
                    case 2: peer.say("-OOM no\r\n")
                    case 3: peer.say("-NOSCRIPT no\r\n")
                    case 4: peer.say("*2\r\n:1\r\n")
                    case 5: break
                    case 6: peer.say("+OK\r\n+OK\r\n")
                    default: peer.say(":1\r\n")
                    }
                }
            }
        }
        var bench = try Bench(server.url) {
            $0.replyDeadline = 10
            $0.responseTimeout = 30
            $0.connectTimeout = 50
            $0.maxCommands = 200
        }
        var random = SplitMix64(seed: seed)
        var tag: UInt64 = 0
        var accepted: [UInt64] = []
        // Each connection that is lost lets the next one wait longer, so there are few of them for each seed.
        while accepted.count < 400, bench.redis.attempts < 4 {
            for _ in 0..<(random.next() % 5) {
                tag += 1
                if bench.append(["PING"], tag: tag) == .accepted { accepted.append(tag) }
            }
            bench.turn()
        }
        #expect(!accepted.isEmpty)
        try bench.turn { $0.answers.count == accepted.count }
        #expect(bench.answers.map(\.tag).sorted() == accepted)
        #expect(bench.redis.output.bytes.count <= 200 * 20)
    }
}
