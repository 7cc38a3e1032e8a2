import TestThreads
import Testing
import Transport
import Wire

@testable import Redis

/// A subscribed connection.
@Suite(.ownThread) struct SubscriptionTests {
    private static let channel: StaticString = "news"

    /// The messages among the answers.
    private func messages(_ bench: borrowing Bench) -> [String] {
        bench.answers.filter { $0.tag == RedisConnection.messageTag }.map(\.text)
    }

    @Test func `messages arrive, and commands are answered in between`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url, subscription: Self.channel)
        try bench.becomeReady()
        #expect(bench.append(["PING"], tag: 1) == .accepted)
        #expect(try server.ask("PUBLISH", "news", "one") == "1")
        #expect(bench.append(["PING"], tag: 2) == .accepted)
        #expect(try server.ask("PUBLISH", "other", "none of ours") == "0")
        #expect(try server.ask("PUBLISH", "news", "") == "1")
        try bench.turn { $0.answers.count == 4 }
        #expect(messages(bench) == [#"["message", "news", "one"]"#, #"["message", "news", ""]"#])
        #expect(bench.answers.filter { $0.tag < 3 }.map(\.tag) == [1, 2])
        #expect(bench.answers.allSatisfy { $0.outcome == .answered })
    }

    @Test func `a restarted server is subscribed to again`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url, subscription: Self.channel)
        try bench.becomeReady()
        server.kill()
        try bench.turn { !$0.redis.isReady }
        try server.start()
        try bench.becomeReady()
        #expect(try server.ask("PUBLISH", "news", "again") == "1")
        try bench.turn { $0.answers.count == 1 }
        #expect(messages(bench) == [#"["message", "news", "again"]"#])
    }

    @Test func `a forbidden subscription is reported`() throws {
        let server = try RedisServer(.unix, ["--user", "default", "on", "nopass", "~*", "resetchannels", "+@all"])
        var bench = try Bench(server.url, subscription: Self.channel)
        try bench.turn { $0.changes.contains { $0.contains("SUBSCRIBE is refused: NOPERM") } }
    }

    @Test(arguments: ["+OK\r\n", ":1\r\n", "*3\r\n$3\r\nfoo\r\n$4\r\nnews\r\n$1\r\nx\r\n", "*2\r\n$7\r\nmessage\r\n$4\r\nnews\r\n"])
    func `an unexpected reply ends the connection`(_ said: String) throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say("*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n" + said)
            peer.hearAll()
        }
        var bench = try Bench(server.url, subscription: Self.channel)
        try bench.turn { $0.changes.contains { $0.contains("a reply without a command") } }
        #expect(messages(bench).first == #"["message", "news", "hi"]"#)
    }

    @Test func `without a subscription a message is a protocol error`() throws {
        let server = try FakeServer { peer, _ in
            guard peer.hear() != nil else { return }
            peer.say("+PONG\r\n*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n")
            peer.hearAll()
        }
        var bench = try Bench(server.url)
        try bench.becomeReady()
        #expect(bench.append(["PING"], tag: 1) == .accepted)
        try bench.turn { $0.changes.contains { $0.contains("a reply without a command") } }
    }
}
