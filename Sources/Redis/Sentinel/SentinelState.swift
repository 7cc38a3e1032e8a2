import Wire

/// Finds the primary of a master name from the answers of several sentinels. A state machine; `SentinelWatch` does the I/O.
///
/// A round asks all sentinels at once. The answer with the highest configuration epoch counts: each failover has an epoch of
/// its own, so one sentinel that took part in the latest outweighs any number that missed it. The server that it names is
/// the candidate, and becomes the primary once it answers ROLE with `master`. Until then the present primary stays, so a
/// sentinel that is wrong takes no working server away. The primary is given up when
/// - its connection is lost, or it says that it is a replica;
/// - another one is confirmed;
/// - the sentinels name another one that cannot be reached: this one may be on the wrong side of a partition.
///
/// While no sentinel answers, the primary stays.
struct SentinelState: Sendable {
    typealias Address = RedisEndpoint.Address

    /// One sentinel's answer.
    enum Answer: Equatable, Sendable {
        /// The primary's address, and the configuration epoch.
        case primary(Address, epoch: UInt64)
        /// It watches no master of that name.
        case unknownName
    }

    /// Why there is no primary, or why a failover would not be noticed.
    enum Problem: Equatable, Sendable {
        /// No round has ended yet.
        case asking
        case noSentinelAnswers
        /// Sentinels answer, and none knows the name.
        case unknownName
        /// The sentinels name this server, and it is a replica.
        case replica(Address)
        /// The sentinels name this server, and it cannot be reached.
        case unreachable(Address)
    }

    /// Milliseconds from the begin of a round to that of the next: while the primary is confirmed, while it is not, and after a hint.
    static let steadyPeriod: UInt64 = 1_000
    static let urgentPeriod: UInt64 = 100
    static let hintedPeriod: UInt64 = 20
    /// Milliseconds for which a server that said it is a replica is not asked again while a sentinel names another.
    static let replicaMemory: UInt64 = 1_000

    /// The confirmed primary.
    private(set) var primary: Address?
    /// The server whose role must be asked.
    private(set) var candidate: Address?
    /// nil while the primary is confirmed and a sentinel answers.
    private(set) var problem: Problem? = .asking
    private var answers: [Int: Answer] = [:]
    /// The sentinels that have not answered in the present round; nil between two rounds.
    private var awaited: Set<Int>?
    /// Whether a hint came during the present round.
    private var isHinted = false
    private var begunAt: MonotonicTime
    private var due: MonotonicTime
    /// The last server that said it is a replica, and until when that is remembered.
    private var replica: (address: Address, until: MonotonicTime)?

    /// The first round is due when a sentinel is reached, or soon.
    init(now: MonotonicTime) {
        (begunAt, due) = (now, now.advanced(milliseconds: Self.urgentPeriod))
    }

    /// When the next round is due; nil during one.
    var deadline: MonotonicTime? { awaited == nil ? due : nil }

    // MARK: rounds

    /// These sentinels have been asked; each of them must answer or fail.
    mutating func asked(_ sentinels: Set<Int>, _ now: MonotonicTime) {
        answers = [:]
        awaited = sentinels
        begunAt = now
        isHinted = false
        if sentinels.isEmpty { endRound(now) }
    }

    mutating func answered(_ sentinel: Int, _ answer: Answer, _ now: MonotonicTime) {
        answers[sentinel] = answer
        settled(sentinel, now)
    }

    /// A sentinel gave no usable answer.
    mutating func failed(_ sentinel: Int, _ now: MonotonicTime) { settled(sentinel, now) }

    private mutating func settled(_ sentinel: Int, _ now: MonotonicTime) {
        guard awaited?.remove(sentinel) != nil, awaited?.isEmpty == true else { return }
        endRound(now)
    }

    /// The primary may have changed: a sentinel said so, has just been reached, or a server answered READONLY.
    mutating func hinted() {
        isHinted = true
        if awaited == nil { due = min(due, begunAt.advanced(milliseconds: Self.hintedPeriod)) }
    }

    private mutating func endRound(_ now: MonotonicTime) {
        awaited = nil
        if let named = named(now) {
            if named == primary {
                candidate = nil
                problem = nil
            } else {
                candidate = named
            }
        } else {
            candidate = nil
            problem = answers.isEmpty ? .noSentinelAnswers : .unknownName
        }
        schedule()
    }

    private mutating func schedule() {
        let period = isHinted ? Self.hintedPeriod : problem == nil && candidate == nil ? Self.steadyPeriod : Self.urgentPeriod
        due = begunAt.advanced(milliseconds: period)
    }

    /// The server of the highest epoch. Of several with the same epoch, the one that most sentinels name.
    private func named(_ now: MonotonicTime) -> Address? {
        var best: (address: Address, epoch: UInt64, votes: Int)?
        let primaries = answers.sorted { $0.key < $1.key }.compactMap { answer -> (address: Address, epoch: UInt64)? in
            if case .primary(let address, let epoch) = answer.value { (address, epoch) } else { nil }
        }
        let others = primaries.filter { $0.address != replica?.address || now >= replica!.until }
        for (address, epoch) in others.isEmpty ? primaries : others {
            let votes = primaries.count { $0.address == address && $0.epoch == epoch }
            if let best, (best.epoch, best.votes) >= (epoch, votes) { continue }
            best = (address, epoch, votes)
        }
        return best?.address
    }

    // MARK: servers

    /// The candidate has answered ROLE with `master`.
    mutating func confirmed() {
        guard let candidate else { return }
        primary = candidate
        self.candidate = nil
        problem = nil
    }

    /// The candidate is a replica.
    mutating func refused(_ now: MonotonicTime) {
        guard let candidate else { return }
        replica = (candidate, now.advanced(milliseconds: Self.replicaMemory))
        if primary == nil { problem = .replica(candidate) }
        self.candidate = nil
    }

    /// The candidate cannot be reached.
    mutating func unreachable() {
        guard let candidate else { return }
        primary = nil
        problem = .unreachable(candidate)
        self.candidate = nil
    }

    /// The connection to the primary is lost, or it says that it is a replica.
    mutating func primaryLost() {
        primary = nil
        problem = .asking
        hinted()
    }
}
