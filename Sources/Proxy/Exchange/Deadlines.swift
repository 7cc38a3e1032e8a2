import Gate
import HTTP
import Transport
import Wire

/// Deadlines that clients gave their requests (`grpc-timeout`), by exchange. They stand beside the timers of the connections, which
/// are set anew by every byte.
struct Deadlines: ~Copyable {
    private var timers: TimerWheel
    private var count = 0

    /// Without any, a turn costs nothing here.
    var isAnySet: Bool { count > 0 }

    init(now: MonotonicTime) { timers = TimerWheel(now: now) }

    mutating func set(_ exchange: ExchangeIndex, _ deadline: MonotonicTime) {
        if !timers.isSet(exchange.id) { count += 1 }
        timers.set(exchange.id, deadline: deadline)
    }

    mutating func clear(_ exchange: ExchangeIndex) {
        guard timers.isSet(exchange.id) else { return }
        timers.clear(exchange.id)
        count -= 1
    }

    /// Appends the exchanges whose deadline has passed to `due`, and clears them.
    mutating func expire(_ now: MonotonicTime, into due: inout [Int]) {
        let before = due.count
        timers.expire(now, into: &due)
        count -= due.count - before
    }

    /// How long the loop may wait for the next one, at most `longest` milliseconds.
    mutating func millisecondsToNext(_ now: MonotonicTime, longest: Int32) -> Int32 {
        count > 0 ? timers.millisecondsToNext(now, longest: longest) : longest
    }
}

/// Ends requests whose deadline has passed.
extension Worker {
    /// Sets the deadline that the client gave its request. It counts from the request's arrival, however often it is decided about.
    mutating func setDeadline(_ exchange: ExchangeIndex, after timeout: GRPCTimeout) {
        let deadline = MonotonicTime(nanoseconds: exchanges[exchange].record.startedAt.nanoseconds + timeout.nanoseconds)
        exchanges[exchange].request.deadline = deadline
        deadlines.set(exchange, deadline)
    }

    mutating func expireDeadlines(_ scratch: inout Scratch) {
        deadlines.expire(now.monotonic, into: &scratch.due)
        for index in scratch.due.indices {
            let exchange = ExchangeIndex(number: UInt32(scratch.due[index]))
            // The end of another exchange may have ended this one.
            guard let deadline = exchanges[exchange].request.deadline, now.monotonic >= deadline else { continue }
            deadlinePassed(exchange, &scratch)
        }
        scratch.due.removeAll(keepingCapacity: true)
    }

    private mutating func deadlinePassed(_ exchange: ExchangeIndex, _ scratch: inout Scratch) {
        let client = exchanges[exchange].client
        exchanges[exchange].record.error = "deadline"
        if exchanges[exchange].state.waitsForDecision {
            refuseHeld(exchange, .timeout, &scratch)
        } else {
            releaseUpstream(exchange, reusable: false)
            endLost(exchange, .timeout, &scratch)
        }
        resumeClient(client, &scratch)
        if downstream.clients.isCurrent(client) { refreshInterest(client.index) }
    }
}

extension Exchange {
    /// Writes the time that is left into the head for the upstream.
    mutating func renewTimeout(at now: MonotonicTime) {
        guard let deadline = request.deadline, !attempt.head.timeout.isEmpty else { return }
        // A time of zero would be none to some servers.
        let left = GRPCTimeout(nanoseconds: max(1, deadline.nanoseconds(since: now)))
        left.write(over: Int(attempt.head.timeout.start), of: &attempt.replay)
    }
}
