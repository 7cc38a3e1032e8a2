import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Redis

/// Real servers that end, stand still, or answer with errors.
@Suite(.ownThread) struct OutageTests {
    private static let set = RedisScript(name: "set", source: "return redis.call('SET', KEYS[1], ARGV[1])")

    private func tags(_ bench: borrowing Bench, _ outcome: RedisOutcome) -> [UInt64] {
        bench.answers.filter { $0.outcome == outcome }.map(\.tag)
    }

    /// The worker, and not the server, may be what was held up.
    @Test func `a reply that waits to be read when its time is over is an answer`() throws {
        let server = try RedisServer(.tcp)
        var bench = try Bench("redis://\(server.address)")
        try bench.becomeReady()
        let admission = bench.append(["ECHO", "word"], tag: 1)
        #expect(admission == .accepted)
        bench.flush()
        let events = bench.loop.wait(milliseconds: 30_000)
        #expect(events == 1)
        let later = bench.now.advanced(milliseconds: 120_000)
        bench.redis.ready(bench.loop.ready(0), later, bench.loop)
        bench.redis.timedOut(later, bench.loop)
        let result = bench.redis.next(later)
        #expect(result?.tag == 1 && result?.outcome == .answered)
        let isReady = bench.redis.isReady
        #expect(isReady)
    }

    @Test func `a server that starts late is reached then, and reported once`() throws {
        let server = try RedisServer()
        server.kill()
        var bench = try Bench(server.url)
        try bench.turn { $0.redis.attempts == 3 }
        #expect(bench.append(["PING"]) == .notReady)
        #expect(bench.changes.count == 1 && bench.changes[0].hasPrefix("not connected: cannot connect to unix:"))
        try server.start()
        try bench.becomeReady()
        #expect(bench.changes.count == 2 && bench.changes[1] == "ready")
    }

    @Test(arguments: [false, true])
    func `unanswered commands are lost once when the server ends, and the next server serves`(_ overTCP: Bool) throws {
        let server = try RedisServer(overTCP ? .tcp : .unix)
        var scripts = RedisScripts()
        let script = scripts.register(Self.set)
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        for round in 0..<2 as Range<UInt64> {
            server.pause()
            for tag in 0..<50 as Range<UInt64> { #expect(bench.call(script, "k", ["v"], tag: round * 100 + tag) == .accepted) }
            bench.turn()
            // Appended and never sent.
            for tag in 50..<60 as Range<UInt64> { #expect(bench.call(script, "k", ["v"], tag: round * 100 + tag) == .accepted) }
            server.kill()
            bench.answers = []
            try bench.turn { $0.answers.count == 60 }
            #expect(tags(bench, .lost) == (0..<60).map { round * 100 + $0 })
            #expect(bench.call(script, "k", ["v"]) == .notReady && bench.redis.inFlight == 0)
            try server.start()
            try bench.becomeReady()
            #expect(bench.call(script, "k", ["v"], tag: 99) == .accepted)
            try bench.turn { $0.answers.count == 61 }
            #expect(bench.answers.last == Answer(tag: 99, outcome: .answered, text: "+OK"))
        }
    }

    @Test func `no caller waits longer than the deadline, and a late reply is dropped`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) { $0.replyDeadline = 30 }
        try bench.becomeReady()
        server.pause()
        for tag in 0..<20 as Range<UInt64> { #expect(bench.append(["ECHO", "old\(tag)"], tag: tag) == .accepted) }
        try bench.turn { $0.answers.count == 20 }
        #expect(tags(bench, .late) == Array(0..<20))
        #expect(bench.redis.inFlight == 20 && bench.redis.oldestInFlight != nil)
        server.resume()
        try bench.turn { $0.redis.inFlight == 0 }
        #expect(bench.answers.count == 20)
        #expect(try bench.askUntilInTime(["ECHO", "new"]) == "\"new\"")
        #expect(bench.answers.count == 20 && bench.redis.attempts == 1)
    }

    @Test(arguments: [false, true])
    func `a late command may have a second result, with its reply or the loss of the connection`(_ isKilled: Bool) throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) { ($0.replyDeadline, $0.reportsLateReplies) = (30, true) }
        try bench.becomeReady()
        server.pause()
        for tag in 0..<3 as Range<UInt64> { #expect(bench.append(["ECHO", "old\(tag)"], tag: tag) == .accepted) }
        try bench.turn { $0.answers.count == 3 }
        #expect(tags(bench, .late) == [0, 1, 2] && bench.answers.allSatisfy { !$0.isLate })
        if isKilled { server.kill() } else { server.resume() }
        try bench.turn { $0.answers.count == 6 }
        let outcome = isKilled ? RedisOutcome.lost : .answered
        #expect(
            bench.answers[3...]
                == (0..<3).map { Answer(tag: $0, outcome: outcome, text: isKilled ? "" : "\"old\($0)\"", isLate: true) }[...])
        #expect(bench.redis.inFlight == 0)
    }

    @Test func `a server that hangs is disconnected, and reconnected when it resumes`() throws {
        let server = try RedisServer(.tcp)
        var bench = try Bench(server.url, scripts: RedisScripts.with(Self.set)) {
            // So far apart that a busy machine does not take one for the other.
            $0.replyDeadline = 25
            $0.responseTimeout = 3_000
            $0.connectTimeout = 3_000
        }
        try bench.becomeReady()
        let attempts = bench.redis.attempts
        server.pause()
        #expect(bench.append(["PING"], tag: 1) == .accepted)
        try bench.turn { !$0.redis.isReady }
        #expect(bench.answers == [Answer(tag: 1, outcome: .late)])
        #expect(bench.changes.last == "not connected: it has not answered for 3s")
        // Its listener still accepts connections, but sends no reply.
        try bench.turn { $0.redis.attempts == attempts + 2 }
        #expect(bench.append(["PING"]) == .notReady)
        #expect(bench.changes.last == "not connected: connecting and greeting took longer than 3s")
        server.resume()
        try bench.becomeReady()
        #expect(try bench.askUntilInTime(["ECHO", "again"]) == "\"again\"")
        #expect(bench.answers.count == 1)
    }

    @Test func `after five timeouts nothing is sent until a probe is answered`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) { $0.replyDeadline = 20 }
        try bench.becomeReady()
        server.pause()
        try bench.miss { bench, tag in
            let admission = bench.append(["PING"], tag: tag)
            #expect(admission == .accepted)
            try bench.turn { $0.answers.count == tag }
        }
        var moment = try beforeProbe(bench)
        #expect(bench.append(["PING"], tag: 106, at: moment) == .breakerOpen)
        server.resume()
        try bench.turn { $0.redis.inFlight == 0 }
        moment = try beforeProbe(bench)
        #expect(bench.append(["PING"], tag: 107, at: moment) == .breakerOpen)
        let answers = bench.answers.count
        var probe = RedisAdmission.breakerOpen
        while probe == .breakerOpen {
            bench.turn()
            probe = bench.append(["PING"], tag: 108)
        }
        #expect(probe == .accepted && bench.redis.breaker.state == .halfOpen)
        #expect(bench.append(["PING"], tag: 109) == .breakerOpen)
        try bench.turn { $0.answers.count == answers + 1 }
        // A machine that is busy with other tests may answer the probe late; then the next one goes.
        if bench.answers[answers].outcome == .answered {
            #expect(bench.redis.breaker.state == .closed)
            #expect(bench.append(["PING"], tag: 110) == .accepted)
        } else {
            moment = try beforeProbe(bench)
            #expect(bench.append(["PING"], tag: 110, at: moment) == .breakerOpen)
        }
    }

    /// The last moment at which the open breaker admits nothing; it may be over on a busy machine.
    private func beforeProbe(_ bench: borrowing Bench) throws -> MonotonicTime {
        guard case .open(let probeAt) = bench.redis.breaker.state else { throw TestFault("the breaker is \(bench.redis.breaker.state)") }
        return MonotonicTime(nanoseconds: probeAt.nanoseconds - 1)
    }

    @Test func `a server without memory counts as one that does not answer`() throws {
        let server = try RedisServer()
        var scripts = RedisScripts()
        let script = scripts.register(Self.set)
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        #expect(try bench.ask(["CONFIG", "SET", "maxmemory", "1"]) == "+OK")
        try bench.miss { bench, tag in
            let admission = bench.call(script, "k", ["v"], tag: tag)
            #expect(admission == .accepted)
            try bench.turn { $0.answers.count == tag }
        }
        #expect(bench.answers.allSatisfy { $0.outcome == .refused(.outOfMemory) })
        #expect(bench.redis.breaker.state != .closed)
        #expect(bench.changes.count == 2 && bench.changes[1].hasPrefix("commands are refused: OOM command not allowed"))
        try server.ask("CONFIG", "SET", "maxmemory", "0")
        // Probes find out, and after a second without a refusal the condition is good again.
        let start = bench.now
        while bench.redis.condition != .ready, bench.now.nanoseconds(since: start) < 30_000_000_000 {
            if bench.redis.inFlight == 0 { _ = bench.call(script, "k", ["v"]) }
            bench.turn()
        }
        #expect(bench.redis.breaker.state == .closed)
        #expect(bench.changes.count == 3 && bench.changes[2] == "ready")
    }

    @Test func `a replica counts as a server that does not answer`() throws {
        let server = try RedisServer()
        var scripts = RedisScripts()
        let script = scripts.register(Self.set)
        var bench = try Bench(server.url, scripts: scripts)
        try bench.becomeReady()
        #expect(try bench.ask(["REPLICAOF", "127.0.0.1", "1"]) == "+OK")
        #expect(bench.call(script, "k", ["v"]) == .accepted)
        try bench.turn { !$0.answers.isEmpty }
        #expect(bench.answers[0].outcome == .refused(.readOnly))
        #expect(bench.changes.last?.hasPrefix("commands are refused: READONLY ") == true)
    }

    @Test func `a lost permission is reported`() throws {
        let server = try RedisServer(.tcp, ["--user", "ada", "on", ">x", "~*", "+@all"])
        var bench = try Bench("redis://ada:x@\(server.address)")
        try bench.becomeReady()
        try server.ask("ACL", "SETUSER", "ada", "-incr")
        #expect(bench.append(["INCR", "k"]) == .accepted)
        try bench.turn { !$0.answers.isEmpty }
        #expect(bench.answers[0].outcome == .refused(.notPermitted))
        // A deleted user is disconnected and rejected.
        try server.ask("ACL", "DELUSER", "ada")
        try bench.turn { $0.changes.last?.contains("AUTH is refused: WRONGPASS") == true }
        #expect(bench.append(["PING"]) == .notReady)
    }

    @Test func `unanswered commands are bounded, and one more is rejected`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) {
            $0.maxCommands = 10
            $0.maxBytes = 2_000
        }
        try bench.becomeReady()
        server.pause()
        for tag in 0..<10 as Range<UInt64> { #expect(bench.append(["PING"], tag: tag) == .accepted) }
        #expect(bench.append(["PING"]) == .full)
        bench.turn()
        #expect(bench.append(["PING"]) == .full)
        server.resume()
        try bench.turn { $0.answers.count == 10 }
        let long = String(repeating: "x", count: 800)
        #expect(bench.append(["ECHO", long]) == .accepted && bench.append(["ECHO", long]) == .accepted)
        #expect(bench.append(["ECHO", long]) == .full)
        try bench.turn { $0.answers.count == 12 }
        #expect(bench.append(["ECHO", long]) == .accepted)
    }

    @Test func `commands that the kernel does not accept are sent when it does`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url) { $0.maxBytes = 64 << 20 }
        try bench.becomeReady()
        server.pause()
        let long = String(repeating: "x", count: 100_000)
        for tag in 0..<100 as Range<UInt64> {
            #expect(bench.append(["SET", "k\(tag)", long], tag: tag) == .accepted)
            if tag % 50 == 0 { bench.turn() }
        }
        #expect(bench.redis.output.hasUnsent == true)
        server.resume()
        try bench.turn { $0.answers.count == 100 }
        #expect(bench.answers.allSatisfy { $0.outcome == .answered && $0.text == "+OK" })
        #expect(bench.answers.map(\.tag) == Array(0..<100))
        #expect(bench.redis.nextDeadline() == nil)
    }

    @Test func `a name may get its address late, and another one later`() throws {
        let first = try RedisServer(.tcp)
        let second = try RedisServer(.tcp)
        var bench = try Bench("redis://redis.example", addresses: [])
        try bench.turn { !$0.changes.isEmpty }
        #expect(bench.changes == ["not connected: its name has no address yet"])
        bench.redis.replace(addresses: [first.address], bench.now)
        try bench.becomeReady()
        #expect(try bench.ask(["SET", "where", "first"]) == "+OK")
        bench.redis.replace(addresses: [second.address, first.address], bench.now)
        #expect(bench.redis.isReady == true)
        first.pause()
        #expect(bench.append(["GET", "where"], tag: 4) == .accepted)
        bench.redis.replace(addresses: [second.address], bench.now)
        try bench.turn { !$0.answers.isEmpty }
        #expect(bench.answers == [Answer(tag: 4, outcome: .lost)])
        #expect(bench.changes.last == "not connected: its name has other addresses now")
        try bench.becomeReady()
        #expect(try bench.ask(["GET", "where"]) == "nil")
    }

    @Test func `an address that does not answer is followed by the next`() throws {
        let gone = try RedisServer(.tcp)
        let server = try RedisServer(.tcp)
        gone.kill()
        var bench = try Bench("redis://redis.example", addresses: [gone.address, server.address])
        try bench.becomeReady()
        #expect(bench.redis.attempts == 2)
        #expect(bench.changes == ["not connected: cannot connect to \(gone.address): connection refused", "ready"])
    }

    @Test func `closing the connection reports every command as lost`() throws {
        let server = try RedisServer()
        var bench = try Bench(server.url)
        try bench.becomeReady()
        server.pause()
        for tag in 0..<5 as Range<UInt64> { #expect(bench.append(["PING"], tag: tag) == .accepted) }
        bench.redis.close(bench.now)
        bench.turn()
        #expect(tags(bench, .lost) == Array(0..<5))
        #expect(bench.append(["PING"]) == .notReady && bench.redis.nextDeadline() == nil)
    }
}
