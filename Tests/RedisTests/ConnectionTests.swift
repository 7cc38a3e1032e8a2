import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

/// Against real servers: ways in, commands, scripts.
@Suite(.ownThread) struct ConnectionTests {
    static let count = RedisScript(
        name: "count", source: "return {redis.call('INCRBY', KEYS[1], ARGV[1]), tonumber(ARGV[1]), 0, -1}")

    @Test func `a server is reached over TCP`() throws {
        let server = try RedisServer(.tcp)
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(try bench.ask(["PING"]) == "+PONG")
        #expect(bench.changes == ["ready"])
    }

    @Test func `a server is reached over a unix socket`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(try bench.ask(["ECHO", "a\r\nb"]) == "\"a\r\nb\"")
    }

    @Test func `a server is reached over TLS, verified`() throws {
        let certificates = try Certificates.get()
        let server = try RedisServer(.tls(certificate: certificates.certificate, key: certificates.key), ["--requirepass", "open"])
        let tls = try TLSClientContext(authorityFile: certificates.authority, protocols: [])
        var scripts = RedisScripts()
        let script = scripts.register(Self.count)
        let port = try #require(server.address.port)
        var bench = try Bench("rediss://:open@127.0.0.1:\(port)/1", tls: tls, scripts: scripts)
        try bench.becomeReady()
        for tag in 0..<5_000 as Range<UInt64> { #expect(bench.call(script, "k", ["1"], tag: tag) == .accepted) }
        try bench.turn { $0.answers.count == 5_000 }
        for (index, answer) in bench.answers.enumerated() where answer.text != "[\(index + 1), 1, 0, -1]" {
            Issue.record("answer \(index) is \(answer)")
        }
        // More than a few records each way.
        let long = String(repeating: "x", count: 200_000)
        #expect(try bench.ask(["ECHO", long]) == "\"\(long)\"")
    }

    @Test func `a server with another name is no server`() throws {
        let certificates = try Certificates.get()
        let server = try RedisServer(.tls(certificate: certificates.certificate, key: certificates.key))
        let tls = try TLSClientContext(authorityFile: certificates.authority, protocols: [])
        var bench = try Bench("rediss://redis.example", addresses: [server.address], tls: tls)
        try bench.turn { !$0.changes.isEmpty }
        #expect(bench.changes[0].hasPrefix("not connected: the TLS handshake failed: the certificate is refused: "))
    }

    @Test func `a server without TLS is reported as such`() throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say("-ERR unknown command\r\n")
            peer.hearAll()
        }
        let tls = try TLSClientContext(authorityFile: Certificates.get().authority, protocols: [])
        var bench = try Bench("rediss://localhost", addresses: [server.address], tls: tls)
        try bench.turn { !$0.changes.isEmpty }
        #expect(bench.changes[0] == "not connected: the TLS handshake failed: wrong version number" + Self.hint)
    }

    private static let hint = "; if it speaks no TLS, its URL must begin with redis and not rediss"

    /// Redis waits for the end of a line, which a handshake need not have.
    @Test func `a server that does not answer the TLS handshake may be one without`() throws {
        let server = try FakeServer { peer, _ in peer.hearAll() }
        let tls = try TLSClientContext(authorityFile: Certificates.get().authority, protocols: [])
        var bench = try Bench("rediss://localhost", addresses: [server.address], tls: tls) { $0.connectTimeout = 300 }
        try bench.turn { !$0.changes.isEmpty }
        #expect(bench.changes[0] == "not connected: the TLS handshake took longer than 300ms" + Self.hint)
    }

    @Test(arguments: [
        (":open@", "\"default\""), ("ada:s%65cret%2F@", "\"ada\""),
    ])
    func `authentication is sent first`(_ credentials: String, _ name: String) throws {
        let server = try RedisServer(.tcp, ["--requirepass", "open", "--user", "ada", "on", ">secret/", "~*", "&*", "+@all"])
        var bench = try Bench("redis://\(credentials)\(server.address)/2")
        try bench.becomeReady()
        #expect(try bench.ask(["ACL", "WHOAMI"]) == name)
    }

    static let count2 = RedisScripts.with(count)

    @Test(arguments: [
        (":wrong@", "AUTH is refused: WRONGPASS ", "; the URL must carry the server's password, and the user if it is not the default one"),
        ("eve:open@", "AUTH is refused: WRONGPASS ", ""),
        (
            "", "SCRIPT LOAD of count is refused: NOAUTH ",
            "; the URL must carry the server's password, and the user if it is not the default one"
        ),
        (
            "bob:b@", "SCRIPT LOAD of count is refused: NOPERM ",
            "; the user of the URL must have the rights that docs/several-gateways.md lists"
        ),
    ])
    func `a rejected login is reported once and retried`(_ credentials: String, _ start: String, _ end: String) throws {
        let server = try RedisServer(.tcp, ["--requirepass", "open", "--user", "bob", "on", ">b", "~*", "+ping"])
        var bench = try Bench("redis://\(credentials)\(server.address)", scripts: Self.count2)
        try bench.turn { $0.redis.attempts == 4 }
        #expect(bench.changes.count == 1)
        #expect(bench.changes[0].hasPrefix("not connected: \(start)") && bench.changes[0].hasSuffix(end))
        #expect(bench.append(["PING"]) == .notReady)
        #expect(!bench.changes[0].contains("wrong"))
    }

    @Test func `a password that becomes right lets us in`() throws {
        let server = try RedisServer(.tcp)
        var bench = try Bench("redis://:new@\(server.address)")
        try bench.turn { $0.redis.attempts == 2 }
        #expect(bench.changes.count == 1 && bench.changes[0].contains("AUTH is refused: ERR AUTH "))
        try server.ask("CONFIG", "SET", "requirepass", "new")
        try bench.becomeReady()
        #expect(bench.changes.last == "ready")
    }

    @Test func `a database of the server is chosen`() throws {
        let server = try RedisServer()
        var third = try Bench(server.url + "?db=3")
        var first = try Bench(server.url)
        try third.becomeReady()
        try first.becomeReady()
        #expect(try third.ask(["SET", "k", "v"]) == "+OK")
        #expect(try third.ask(["GET", "k"]) == "\"v\"")
        #expect(try first.ask(["GET", "k"]) == "nil")
        var none = try Bench(server.url + "?db=16")
        try none.turn { !$0.changes.isEmpty }
        #expect(none.changes == ["not connected: SELECT 16 is refused: ERR DB index is out of range"])
    }

    @Test func `ten thousand commands of a turn leave together and are answered in their order`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url)
        try bench.becomeReady()
        for tag in 0..<10_000 as Range<UInt64> { #expect(bench.append(["INCR", "n"], tag: tag * 3) == .accepted) }
        #expect(bench.redis.inFlight == 10_000)
        try bench.turn { $0.answers.count == 10_000 }
        for (index, answer) in bench.answers.enumerated() where answer.tag != index * 3 || answer.text != "\(index + 1)" {
            Issue.record("answer \(index) is \(answer)")
        }
        #expect(bench.batches == [10_000])
        #expect(bench.redis.inFlight == 0 && bench.redis.oldestInFlight == nil)
    }

    /// The window ends with the first reply; on a busy machine a short one would end before.
    @Test(arguments: [(UInt64(60_000_000), [1, 3]), (UInt64(0), [1, 1, 1, 1])])
    func `commands during others are batched for the batching window`(_ batchWindow: UInt64, _ batches: [Int]) throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) { $0.batchWindow = batchWindow }
        try bench.becomeReady()
        for tag in 0..<4 as Range<UInt64> {
            #expect(bench.append(["INCR", "n"], tag: tag) == .accepted)
            bench.flush()
        }
        try bench.turn { $0.answers.count == 4 }
        #expect(bench.answers.map(\.text) == ["1", "2", "3", "4"])
        #expect(bench.batches == batches)
    }

    @Test func `an error reply belongs to its command alone`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url)
        try bench.becomeReady()
        for (tag, words) in [["SET", "s", "x"], ["INCR", "s"], ["NOSUCH"], ["LPUSH", "s", "x"], ["GET", "s"]].enumerated() {
            #expect(bench.append(words, tag: UInt64(tag)) == .accepted)
        }
        try bench.turn { $0.answers.count == 5 }
        #expect(bench.answers.map(\.outcome) == [.answered, .refused(.command), .refused(.command), .refused(.command), .answered])
        #expect(bench.answers[1].text == "!ERR value is not an integer or out of range")
        #expect(bench.redis.breaker.state == .closed && bench.changes == ["ready"])
    }

    // MARK: scripts

    @Test func `a script is called with any number of arguments`() throws {
        let server = try RedisServer()
        var scripts = RedisScripts()
        let echo = scripts.register(RedisScript(name: "echo", source: "return {KEYS[1], #ARGV, ARGV[1], ARGV[#ARGV]}"))
        let count = scripts.register(Self.count)
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        for (tag, arguments) in [["a"], ["a", "b"], ["a", "", "c\r\n"], ["a"]].enumerated() {
            #expect(bench.call(echo, "key", arguments, tag: UInt64(tag)) == .accepted)
        }
        #expect(bench.call(count, "n", ["7"], tag: 4) == .accepted)
        try bench.turn { $0.answers.count == 5 }
        #expect(
            bench.answers.map(\.text) == [
                "[\"key\", 1, \"a\", \"a\"]", "[\"key\", 2, \"a\", \"b\"]", "[\"key\", 3, \"a\", \"c\r\n\"]",
                "[\"key\", 1, \"a\", \"a\"]", "[7, 7, 0, -1]",
            ])
    }

    @Test func `a server that has lost its scripts gets them again, and no caller notices`() throws {
        let server = try RedisServer()
        var scripts = RedisScripts()
        let push = scripts.register(RedisScript(name: "push", source: "return redis.call('RPUSH', KEYS[1], ARGV[1])"))
        let count = scripts.register(Self.count)
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        for round in 0..<3 as Range<UInt64> {
            try server.ask("CONFIG", "RESETSTAT")
            #expect(try bench.ask(["SCRIPT", "FLUSH"]) == "+OK")
            for tag in 0..<100 as Range<UInt64> {
                #expect(bench.call(push, "list", ["\(round * 100 + tag)"], tag: tag) == .accepted)
                #expect(bench.call(count, "n", ["1"], tag: 1_000 + tag) == .accepted)
            }
            bench.answers = []
            try bench.turn { $0.answers.count == 200 }
            #expect(bench.answers.allSatisfy { $0.outcome == .answered })
            #expect(Set(bench.answers.map(\.tag)).count == 200)
            let loads = try server.ask("INFO", "commandstats").split(separator: "\r\n").first { $0.hasPrefix("cmdstat_script|load") }
            #expect(loads?.contains("calls=2,") == true)
        }
        #expect(try bench.ask(["LRANGE", "list", "0", "-1"]) == "[" + (0..<300).map { "\"\($0)\"" }.joined(separator: ", ") + "]")
        #expect(try bench.ask(["GET", "n"]) == "\"300\"")
        #expect(bench.changes == ["ready"])
    }
}

extension RedisScripts {
    static func with(_ script: RedisScript) -> RedisScripts {
        var scripts = RedisScripts()
        _ = scripts.register(script)
        return scripts
    }
}
