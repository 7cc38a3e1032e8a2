import Glibc
import Testing
import Threads
import Transport
import Wire

@testable import Redis

/// A result with its answer as text.
struct Answer: Equatable {
    var tag: UInt64
    var outcome: RedisOutcome
    /// Of an answer and of an error.
    var text = ""
    var isLate = false
}

/// A connection on a loop that a test turns, as a worker would.
struct Bench: ~Copyable {
    var loop: EventLoop
    var redis: RedisConnection
    var command = RedisCommand()
    var scriptCall = RedisCall()
    /// Results in their order.
    var answers: [Answer] = []
    /// Log lines.
    var changes: [String] = []
    /// Commands in each write that had any.
    var batches: [Int] = []

    /// Time limits that no test reaches, unless `adjust` says otherwise.
    init(
        _ url: String, addresses: [SocketAddress]? = nil, tls: TLSClientContext? = nil, scripts: RedisScripts = RedisScripts(),
        subscription: StaticString? = nil, adjust: (inout RedisConnectionSettings) -> Void = { _ in }
    ) throws {
        let endpoint = try RedisEndpoint(parsing: url)
        var settings = RedisConnectionSettings()
        settings.replyDeadline = 60_000
        settings.responseTimeout = 60_000
        settings.connectTimeout = 60_000
        adjust(&settings)
        loop = try EventLoop()
        redis = RedisConnection(
            endpoint, addresses: addresses ?? endpoint.fixedAddresses ?? [], tls: tls, scripts: scripts, settings: settings,
            subscription: subscription, token: 7, seed: 1, now: EventLoop.now().monotonic)
    }

    var now: MonotonicTime { EventLoop.now().monotonic }

    /// One turn of a loop.
    mutating func turn() {
        flush()
        let count = loop.wait(milliseconds: waitTime())
        let now = EventLoop.now().monotonic
        for index in 0..<count { redis.ready(loop.ready(index), now, loop) }
        redis.timedOut(now, loop)
        while let result = redis.next(now) {
            var answer = Answer(tag: result.tag, outcome: result.outcome, isLate: result.isLate)
            switch result.outcome {
            case .answered, .refused: answer.text = redis.reader.reply.text
            case .late, .lost: break
            }
            answers.append(answer)
        }
        if let change = redis.takeChange() { changes.append(change.description) }
    }

    /// The end of a turn in which nothing was received.
    mutating func flush() {
        let batch = redis.batch
        redis.flush(now, loop)
        if redis.batch < batch { batches.append(batch) }
    }

    private mutating func waitTime() -> Int32 {
        guard let deadline = redis.nextDeadline() else { return 100 }
        return Int32(min(100, (deadline.nanoseconds(since: now) + 999_999) / 1_000_000))
    }

    /// Turns until `condition` holds, which it must within thirty seconds.
    mutating func turn(until condition: (borrowing Bench) -> Bool) throws {
        let start = now
        while !condition(self) {
            guard now.nanoseconds(since: start) < 30_000_000_000 else {
                throw TestFault("it did not come to that: \(answers.suffix(3)), \(changes)")
            }
            turn()
        }
    }

    mutating func becomeReady() throws { try turn { $0.redis.isReady } }

    /// Appends a command of the server's, now or as if it were `time`.
    mutating func append(_ words: [String], tag: UInt64 = 0, at time: MonotonicTime? = nil) -> RedisAdmission {
        command.begin()
        for word in words { command.append { $0.append(word) } }
        return redis.append(command, tag: tag, time ?? now)
    }

    /// Appends a call of a script with one key.
    mutating func call(_ script: RedisScriptID, _ key: String, _ arguments: [String] = [], tag: UInt64 = 0) -> RedisAdmission {
        scriptCall.begin(script, keys: 1)
        for argument in [key] + arguments {
            let bytes = Array(argument.utf8)
            scriptCall.arguments.append(bytes.rawBytes)
        }
        return redis.append(scriptCall, tag: tag, now)
    }

    /// Sends one command and waits for its result.
    mutating func ask(_ words: [String]) throws -> String {
        let tag = UInt64.max
        guard append(words, tag: tag) == .accepted else { throw TestFault("\(words) is not taken") }
        try turn { bench in bench.answers.contains { $0.tag == tag } }
        let answer = answers.remove(at: answers.firstIndex { $0.tag == tag }!)
        guard answer.outcome != .late, answer.outcome != .lost else { throw TestFault("\(words): \(answer)") }
        return answer.text
    }

    /// Sends one command, again for as long as its answer comes after the deadline: a busy machine may hold the server up.
    mutating func askUntilInTime(_ words: [String]) throws -> String {
        let start = now
        while now.nanoseconds(since: start) < 30_000_000_000 {
            let tag = UInt64.max
            guard append(words, tag: tag) == .accepted else {
                turn()
                continue
            }
            try turn { bench in bench.answers.contains { $0.tag == tag } }
            let answer = answers.remove(at: answers.firstIndex { $0.tag == tag }!)
            if answer.outcome != .late, answer.outcome != .lost { return answer.text }
        }
        throw TestFault("\(words): never in time")
    }

    /// Repeats `send`, which sends a command and waits until the breaker has counted it as a miss, until the breaker must be open:
    /// after five, unless a busy machine has spread them over more than a second.
    mutating func miss(_ send: (inout Bench, _ tag: UInt64) throws -> Void) rethrows {
        var begun: [MonotonicTime] = []
        while begun.count < 5 || now.nanoseconds(since: begun[begun.count - 5]) > 1_000_000_000 && redis.breaker.isClosed {
            begun.append(now)
            try send(&self, UInt64(begun.count))
        }
    }
}
