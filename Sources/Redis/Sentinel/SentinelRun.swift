import Threads
import Transport
import Wire

/// State of the thread of a `SentinelWatch`.
struct SentinelRun: ~Copyable {
    /// Tokens of servers' connections, apart from those of sentinels; each connection has one of its own.
    private static let firstServerToken: UInt64 = 1 << 32
    private static let namesMilliseconds: UInt64 = 10_000

    private let endpoint: RedisEndpoint
    private let master: String
    private let tls: TLSClientContext?
    private let names: SentinelNames
    private let report: @Sendable (SentinelEvent) -> Void
    private var loop: EventLoop
    private var random: SplitMix64
    private var state: SentinelState
    private let sentinels: [SentinelLine]
    /// The problems of each that were reported.
    private var reportedProblems: [ReportedReasons]
    /// The connection to the state's candidate; nil while there is none, or its name is being resolved.
    private var candidate: RoleCheck?
    /// A candidate whose name is being resolved.
    private var resolving: RedisEndpoint.Address?
    private var primary: RoleCheck?
    private var nextServerToken = Self.firstServerToken
    private var followers: [SentinelWatch.Follower] = []
    /// Why the latest candidate could not be reached.
    private var lastFault = ""
    /// As last reported, nil until then; the first report is that of a problem or that there is none.
    private var reported: String??
    private var namesDue: MonotonicTime

    init(
        _ endpoint: RedisEndpoint, sentinels addresses: [RedisEndpoint.Address], master: String, tls: TLSClientContext?,
        names: SentinelNames, loop: consuming EventLoop, seed: UInt64, report: @escaping @Sendable (SentinelEvent) -> Void
    ) {
        let now = EventLoop.now().monotonic
        var random = SplitMix64(seed: seed)
        (self.endpoint, self.master, self.tls, self.names, self.report) = (endpoint, master, tls, names, report)
        self.loop = loop
        state = SentinelState(now: now)
        sentinels = addresses.enumerated().map { index, address in
            SentinelLine(
                endpoint, address, master: master, tls: tls, token: UInt64(index) * 2, seed: random.next(), now: now)
        }
        // That it is being connected is not told, that it was is.
        reportedProblems = sentinels.map { sentinel in
            var told = ReportedReasons()
            if let problem = sentinel.problem { told.told(problem) }
            return told
        }
        self.random = random
        namesDue = now
    }

    /// Handles what is there and waits for more; false once stopped.
    mutating func turn(_ mailbox: Mailbox<SentinelWatch.Message>) -> Bool {
        let now = EventLoop.now().monotonic
        for message in mailbox.take() {
            switch message {
            case .stop: return false
            case .ask: state.hinted()
            case .resolved(let address, let addresses): resolved(address, addresses, now)
            case .follow(let follower):
                followers.append(follower)
                if let primary { follower(primary.server) }
            }
        }
        resolveNames(now)
        hearSentinels(now)
        checkPrimary(now)
        checkCandidate(now)
        if let due = state.deadline, now >= due { ask(now) }
        openCandidate(now)
        reportProblems()
        for sentinel in sentinels { sentinel.flush(now, loop) }
        wait()
        return true
    }

    // MARK: sentinels

    private mutating func resolveNames(_ now: MonotonicTime) {
        guard now >= namesDue else { return }
        namesDue = now.advanced(milliseconds: Self.namesMilliseconds)
        for sentinel in sentinels where sentinel.address.fixed == nil { names.resolve(sentinel.address) }
    }

    private mutating func resolved(_ address: RedisEndpoint.Address, _ addresses: [SocketAddress], _ now: MonotonicTime) {
        if !addresses.isEmpty {
            for sentinel in sentinels where sentinel.address == address { sentinel.resolved(to: addresses, now) }
        }
        guard resolving == address else { return }
        resolving = nil
        guard state.candidate == address else { return }
        if addresses.isEmpty {
            lastFault = "its name has no address"
            state.unreachable()
            withdraw()
        } else {
            connect(address, addresses, now)
        }
    }

    private mutating func ask(_ now: MonotonicTime) {
        let asked = sentinels.indices.filter { sentinels[$0].ask(now) }
        state.asked(Set(asked), now)
    }

    private mutating func hearSentinels(_ now: MonotonicTime) {
        for (number, sentinel) in sentinels.enumerated() {
            let isHint = sentinel.receive(now, loop) { answer in
                if let answer { state.answered(number, answer, now) } else { state.failed(number, now) }
            }
            if isHint { state.hinted() }
        }
    }

    // MARK: servers

    private mutating func openCandidate(_ now: MonotonicTime) {
        guard let address = state.candidate else { return candidate = nil }
        guard candidate?.address != address, resolving != address else { return }
        candidate = nil
        if let fixed = address.fixed {
            connect(address, [fixed], now)
        } else {
            resolving = address
            names.resolve(address)
        }
    }

    private mutating func connect(_ address: RedisEndpoint.Address, _ addresses: [SocketAddress], _ now: MonotonicTime) {
        candidate = RoleCheck(
            endpoint, address, addresses, tls: tls, token: nextServerToken, seed: random.next(), now: now)
        nextServerToken += 1
        candidate?.turn(now, loop)
    }

    private mutating func checkCandidate(_ now: MonotonicTime) {
        guard let checked = candidate, checked.address == state.candidate else { return }
        checked.turn(now, loop)
        switch checked.verdict {
        case .connecting: return
        case .primary:
            state.confirmed()
            primary = checked
            for follower in followers { follower(checked.server) }
            report(.primary(checked.address))
        case .replica: state.refused(now)
        case .unreachable(let fault):
            lastFault = fault
            state.unreachable()
            withdraw()
        }
        candidate = nil
    }

    private mutating func checkPrimary(_ now: MonotonicTime) {
        guard let primary else { return }
        primary.turn(now, loop)
        guard primary.verdict != .primary else { return }
        state.primaryLost()
        withdraw()
    }

    /// No server is the primary: followers drop their connections.
    private mutating func withdraw() {
        guard primary != nil else { return }
        primary = nil
        for follower in followers { follower(RedisServer(addresses: [], name: "")) }
    }

    // MARK: reports

    private mutating func reportProblems() {
        for (number, sentinel) in sentinels.enumerated() where reportedProblems[number].isNew(sentinel.problem) {
            reportedProblems[number].told(sentinel.problem)
            report(.sentinel(sentinel.address, problem: sentinel.problem))
        }
        // A problem that a first round may dispel is none yet.
        guard state.problem != .asking else { return }
        let problem = problemText
        guard reported != .some(problem) else { return }
        reported = .some(problem)
        report(.changed(problem: problem))
    }

    private var problemText: String? {
        switch state.problem {
        case nil: nil
        case .asking: "the sentinels are being asked for the primary"
        case .noSentinelAnswers:
            "no sentinel answers: "
                + zip(sentinels, reportedProblems).map { "\($0.address): \($1.latest ?? "no answer")" }.joined(separator: "; ")
        case .unknownName: "the sentinels know no master named \"\(master)\""
        case .replica(let address): "the sentinels name \(address), which is a replica"
        case .unreachable(let address): "the sentinels name \(address), which is \(lastFault)"
        }
    }

    // MARK: the loop

    private mutating func wait() {
        let before = EventLoop.now().monotonic
        var next = namesDue
        if let due = state.deadline { next = min(next, due) }
        for sentinel in sentinels { next = min(next, sentinel.nextDeadline()) }
        if let candidate { next = min(next, candidate.nextDeadline()) }
        if let primary { next = min(next, primary.nextDeadline()) }
        let pause = Int32(truncatingIfNeeded: (next.nanoseconds(since: before) + 999_999) / 1_000_000)
        let count = loop.wait(milliseconds: pause)
        let now = EventLoop.now().monotonic
        for index in 0..<count {
            let event = loop.ready(index)
            if event.token == EventLoop.wakeToken { continue }
            if event.token >= Self.firstServerToken {
                if event.token == candidate?.token { candidate?.ready(event, now, loop) }
                if event.token == primary?.token { primary?.ready(event, now, loop) }
            } else {
                sentinels[Int(event.token / 2)].ready(event, now, loop)
            }
        }
    }
}
