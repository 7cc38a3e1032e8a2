@testable import Limits
import Wire

@testable import Gate

/// Discrete-event simulation of several workers' limit clients and one Redis: the test sets all delays, and
/// every admission is logged with its stamp.
final class SharedLimitSimulation {
    /// A worker with a clock of its own.
    final class Worker {
        var limitClient: SharedLimitClient
        let clockOffset: UInt64

        init(_ settings: SharedLimitClient.Settings, gateways: UInt32, clockOffset: UInt64) {
            limitClient = SharedLimitClient(settings, limiter: SharedLimiter(capacity: 256, hash: KeyedHash(first: 1, second: 2)))
            limitClient.gatewayCountChanged(gateways)
            self.clockOffset = clockOffset
        }
    }

    private enum Event {
        case arrive(worker: Int, LimitCharge, count: Int)
        case reachServer(worker: Int, LimitCommand, sentAt: UInt64)
        case answer(worker: Int, LimitCommand, GCRAReply, sentAt: UInt64, stamp: UInt64)
        /// No reply came before the connection was closed.
        case fail(worker: Int, LimitCommand)
        /// A request's deadline.
        case expire(worker: Int)
        /// The circuit breaker opens or closes.
        case reach(worker: Int, Bool)
    }

    /// Future events by time, then by order of insertion: a binary heap.
    private struct Agenda {
        private var entries: [(time: UInt64, order: Int, event: Event)] = []
        private var order = 0

        var nextTime: UInt64? { entries.first?.time }

        private func comesBefore(_ left: Int, _ right: Int) -> Bool {
            (entries[left].time, entries[left].order) < (entries[right].time, entries[right].order)
        }

        mutating func add(_ time: UInt64, _ event: Event) {
            order += 1
            entries.append((time, order, event))
            var place = entries.count - 1
            while place > 0, comesBefore(place, (place - 1) / 2) {
                entries.swapAt(place, (place - 1) / 2)
                place = (place - 1) / 2
            }
        }

        mutating func removeNext() -> Event {
            entries.swapAt(0, entries.count - 1)
            let next = entries.removeLast()
            var place = 0
            while true {
                var first = place
                for child in [2 * place + 1, 2 * place + 2] where child < entries.count && comesBefore(child, first) { first = child }
                if first == place { return next.event }
                entries.swapAt(place, first)
                place = first
            }
        }
    }

    /// Microseconds, of the server's clock.
    private(set) var now: UInt64 = 1_000_000_000
    var store = SimulatedRedis()
    let workers: [Worker]
    var random: SplitMix64
    /// Network delay of a command or a reply.
    var delay: (inout SplitMix64) -> UInt64 = { _ in 100 }
    /// Whether a message between a worker and the server is lost.
    var loses: (inout SplitMix64) -> Bool = { _ in false }
    /// A worker got its reply; the command was sent at the given time.
    var answered: (SharedLimitSimulation, _ worker: Int, LimitCharge, _ sentAt: UInt64) -> Void = { _, _, _, _ in }

    private(set) var requests = 0
    private(set) var commands = 0
    private(set) var verdicts: [LimitOutcome.Source: Int] = [:]
    private(set) var admitted: [LimitKey: [UInt64]] = [:]
    /// Refusals by the deny cache that the server would have admitted.
    private(set) var wrongRefusals = 0

    private var agenda = Agenda()
    private var tickets: [UInt64: LimitCharge] = [:]
    private var nextTicket: UInt64 = 0

    init(seed: UInt64, workers: Int, change: (inout SharedLimitClient.Settings) -> Void = { _ in }) {
        random = SplitMix64(seed: seed)
        var settings = SharedLimitClient.Settings()
        settings.failureMode = .closed
        change(&settings)
        self.workers = (0..<workers).map {
            Worker(settings, gateways: UInt32(workers), clockOffset: UInt64($0) * 77_777_777)
        }
    }

    private func monotonic(_ worker: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: (now + workers[worker].clockOffset) * 1_000)
    }

    private func schedule(_ time: UInt64, _ event: Event) { agenda.add(time, event) }

    /// `count` requests in one turn of a worker.
    func arrive(at time: UInt64, worker: Int, _ charge: LimitCharge, count: Int = 1) {
        schedule(max(time, now), .arrive(worker: worker, charge, count: count))
    }

    /// From `time` on the worker takes Redis for reachable or for down.
    func reach(at time: UInt64, worker: Int, _ isReachable: Bool) { schedule(time, .reach(worker: worker, isReachable)) }

    func run(until end: UInt64 = .max) {
        while let time = agenda.nextTime, time <= end {
            now = time
            perform(agenda.removeNext())
        }
    }

    private func perform(_ event: Event) {
        switch event {
        case .arrive(let worker, let charge, let count):
            for _ in 0..<count { ask(worker, charge) }
            endTurn(worker)
        case .reachServer(let worker, let command, let sentAt):
            let reply = store.take(command.charge, want: command.want, now: now)
            let answer = Event.answer(worker: worker, command, reply, sentAt: sentAt, stamp: now)
            if loses(&random) { schedule(now + 1_000_000, .fail(worker: worker, command)) } else { schedule(now + delay(&random), answer) }
        case .answer(let worker, let command, var reply, let sentAt, let stamp):
            workers[worker].limitClient.expire(monotonic(worker))
            workers[worker].limitClient.answered(command.id, &reply, now: monotonic(worker))
            endTurn(worker, stamp: stamp)
            answered(self, worker, command.charge, sentAt)
        case .fail(let worker, let command):
            workers[worker].limitClient.failed(command.id, now: monotonic(worker))
            endTurn(worker)
        case .expire(let worker): endTurn(worker)
        case .reach(let worker, let isReachable):
            if isReachable {
                workers[worker].limitClient.storeRecovered()
            } else {
                workers[worker].limitClient.storeFailed(monotonic(worker))
            }
            endTurn(worker)
        }
    }

    private func ask(_ worker: Int, _ charge: LimitCharge) {
        requests += 1
        nextTicket += 1
        var charge = charge
        var verdict = LimitVerdict()
        let wait = workers[worker].limitClient.charge(&charge, ticket: nextTicket, now: monotonic(worker), into: &verdict)
        guard wait != nil else { return settle(charge, verdict, stamp: nil) }
        tickets[nextTicket] = charge
        schedule(now + workers[worker].limitClient.settings.deadline * 1_000, .expire(worker: worker))
    }

    private func endTurn(_ worker: Int, stamp: UInt64? = nil) {
        workers[worker].limitClient.expire(monotonic(worker))
        var verdict = LimitVerdict()
        while let ticket = workers[worker].limitClient.nextVerdict(into: &verdict) {
            guard let charge = tickets.removeValue(forKey: ticket) else { preconditionFailure("a ticket of nobody") }
            settle(charge, verdict, stamp: stamp)
        }
        var command = LimitCommand()
        while workers[worker].limitClient.nextCommand(monotonic(worker), into: &command) {
            commands += 1
            guard !loses(&random) else {
                schedule(now + 1_000_000, .fail(worker: worker, command))
                continue
            }
            schedule(now + delay(&random), .reachServer(worker: worker, command, sentAt: now))
        }
    }

    /// Grants of Redis count from the server's stamp, leased ones from now.
    private func settle(_ charge: LimitCharge, _ verdict: LimitVerdict, stamp: UInt64?) {
        verdicts[verdict.source, default: 0] += 1
        switch (verdict.kind, verdict.source) {
        case (.granted, .redis):
            guard let stamp else { preconditionFailure("a grant out of nowhere") }
            admit(charge, stamp)
        case (.granted, _): admit(charge, now)
        case (.refused, .denyCache):
            var store = store
            if store.take(charge, want: 1, now: now).granted > 0 { wrongRefusals += 1 }
        case (.refused, _), (.open, _), (.closed, _): break
        }
    }

    private func admit(_ charge: LimitCharge, _ time: UInt64) {
        for index in 0..<charge.count { admitted[charge[index].key, default: []].append(time) }
    }

    /// Every waiting request gets a verdict or is past the deadline.
    var waiting: Int { tickets.count }
}

extension LimitCharge.Item {
    /// For tests in which the subject does not matter.
    init(key: LimitKey, rate: LimitRate) { self.init(key: key, rate: rate, subject: .address) }
}

extension LimitCharge {
    /// A charge of counts identified by number.
    static func of(_ counts: (UInt64, LimitRate)...) -> LimitCharge {
        LimitCharge(counts.map { Item(key: LimitKey(high: $0.0 &* 0x9E37_79B9_7F4A_7C15, low: $0.0 &* 0xBF58_476D_1CE4_E5B9), rate: $0.1) })
    }
}
