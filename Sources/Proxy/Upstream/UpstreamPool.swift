import Gate
import Transport
import Wire

/// An endpoint by the index of its pool in the directory and its own in the pool.
struct EndpointIndex: Equatable, Sendable {
    private let poolNumber: UInt32
    private let addressNumber: UInt32

    var pool: Int { Int(poolNumber) }
    var number: Int { Int(addressNumber) }

    init(pool: Int, number: Int) {
        poolNumber = UInt32(truncatingIfNeeded: pool)
        addressNumber = UInt32(truncatingIfNeeded: number)
    }
}

/// One address of an upstream, with this worker's view of it.
struct Endpoint {
    /// Replaced by one that is the same (`isSame`) when its rank changes.
    var address: UpstreamAddress
    /// Its credit in smooth weighted round robin; see `chooseByRank`.
    var credit = 0
    var health = EndpointHealth()
    /// Requests of this worker that were sent there and are not answered.
    var outstanding = 0
    /// Connections of this worker to it, busy and idle.
    var connections = 0
    /// The most recently used idle connection, the head of a list through `UpstreamConnection.nextIdle`.
    var idleHead: UpstreamIndex?
    /// The latest connection that takes streams, or will: the head of a list through `UpstreamCarrier.next`.
    var sessionHead: UpstreamIndex?
    /// Streams that a connection was allowed last, until one says otherwise.
    var streamsPerConnection = UpstreamCarrier.maxStreams
    /// Whether its ALPN chose HTTP/1.1 last: then each request that waits has a connection of its own.
    var choseHTTP1 = false
    /// No longer in the configuration or in DNS: takes no new request.
    var isRetired = false
}

/// The addresses of one upstream and the load balancing among them. A value without sockets; one per worker and upstream.
struct UpstreamPool {
    private(set) var settings: UpstreamSettings
    var endpoints: [Endpoint]
    /// Shared with the same pool of every other worker.
    let connections: ConnectionBudget
    /// Requests that wait for a connection within the bound.
    var room = RoomQueue()
    var budget: RetryBudget
    /// By endpoint: the answers since this worker's window began, and what the judge knows.
    var windows: [AnswerWindow]
    var records: [EjectionRecord]
    /// Whether answers are counted in windows, and their times too: with few addresses no window shows an outlier.
    private(set) var watchesAnswers = false
    private(set) var watchesTimes = false
    /// When this worker's window ends.
    var windowEnd = MonotonicTime(nanoseconds: 0)
    /// The judge: whether windows have been gathered that are not judged yet, and the last condition that was told.
    var awaitsJudgement = false
    var wasPanicking = false
    private var turn = 0
    /// Whether priorities or weights of the addresses differ, as only those of SRV records do.
    private(set) var isRanked = false
    /// When its addresses are probed next.
    var nextProbe = MonotonicTime(nanoseconds: 0)

    init(settings: UpstreamSettings, addresses: [UpstreamAddress], connections: ConnectionBudget = ConnectionBudget()) {
        self.settings = settings
        self.connections = connections
        endpoints = addresses.map { Endpoint(address: $0) }
        windows = addresses.map { _ in AnswerWindow() }
        records = addresses.map { _ in EjectionRecord() }
        budget = RetryBudget(percent: settings.retryPercent)
        isRanked = addresses.haveRanks
        prepareWindows()
    }

    private mutating func prepareWindows() {
        watchesAnswers = endpoints.count >= OutlierRules.minAddresses && settings.outliers.usesWindows
        watchesTimes = watchesAnswers && settings.outliers.latency != nil
        for number in windows.indices {
            if watchesTimes { windows[number].times.start() } else { windows[number].times.stop() }
        }
    }

    /// Reserves one more connection within `max-connections`, if there is room.
    func reserveConnection() -> Bool { connections.acquire(within: settings.maxConnections) }

    /// Whether another worker may need an idle connection's room.
    var isBounded: Bool { settings.maxConnections < .max }

    /// Whether more connections are open than allowed, since a reload lowered the bound.
    var isOverBound: Bool { isBounded && connections.isOver(settings.maxConnections) }

    /// The endpoint for the next request, or for its retry, which avoids the one that failed if there is another; nil if none may
    /// be used now.
    ///
    /// Addresses that are out or fail their probes are not chosen while there are enough others; see `chooseAmongUnsettled`.
    @inline(__always)
    mutating func choose(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        if endpoints.count == 1 { return endpoints[0].health.isHealthy && !endpoints[0].isRetired ? 0 : nil }
        return chooseAmongAll(avoiding: avoided, at: now)
    }

    private mutating func chooseAmongAll(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        if isRanked { return chooseByRank(avoiding: avoided, at: now) }
        turn &+= 1
        var best: Int?
        var bestScore = Int.max
        for offset in endpoints.indices {
            let index = (turn &+ offset) % endpoints.count
            guard !endpoints[index].isRetired, endpoints[index].health.isSettled else {
                return chooseAmongUnsettled(avoiding: avoided, at: now)
            }
            var score = settings.balance == .leastOutstanding ? endpoints[index].outstanding : 0
            if index == avoided { score += 1 << 41 }
            if score < bestScore {
                best = index
                bestScore = score
            }
        }
        return best
    }

    /// Chooses while some address is out, fails its probes, starts slowly or is gone. Those that are left take turns.
    ///
    /// - Panic: with too few available, absences are ignored, and failed probes too if those alone leave too few. Retries still prefer
    ///   the others. If all fail their probes, none is chosen.
    /// - Without panic, an address that is out is only chosen if there is no other: a guess must not take the last one away.
    private mutating func chooseAmongUnsettled(avoiding avoided: Int?, at now: MonotonicTime) -> Int? {
        guard let (eligibility, count) = eligible(avoiding: avoided, at: now) else { return nil }
        return minLoaded(of: count, eligibility, at: now)
    }

    /// Which addresses the request may take, and how many; nil if there are none.
    mutating func eligible(avoiding avoided: Int?, at now: MonotonicTime) -> (Eligibility, count: Int)? {
        for index in endpoints.indices { endpoints[index].health.advance(to: now, settings.outliers) }
        let condition = condition(at: now)
        guard condition.healthy > 0 else { return nil }
        var eligibility = Eligibility(condition, avoided, now)
        var count = endpoints.indices.count { eligibility.admits($0, endpoints[$0]) }
        while count == 0, eligibility.widen() { count = endpoints.indices.count { eligibility.admits($0, endpoints[$0]) } }
        return count > 0 ? (eligibility, count) : nil
    }

    /// The least loaded of the `count` eligible addresses; of those with the same load the next in turn.
    private mutating func minLoaded(of count: Int, _ eligibility: Eligibility, at now: MonotonicTime) -> Int? {
        var start = turn % count
        var rank = 0
        for index in endpoints.indices where eligibility.admits(index, endpoints[index]) {
            if rank == start, !endpoints[index].health.takesTurn(at: now, settings.outliers) {
                // It starts slowly, and its turn goes to each of the others in turn.
                start = (start + 1 + turn / count % max(1, count - 1)) % count
                break
            }
            rank += 1
        }
        var best: (index: Int, load: Int, distance: Int)?
        rank = 0
        for index in endpoints.indices where eligibility.admits(index, endpoints[index]) {
            let distance = (rank - start + count) % count
            let load = load(of: index, isItsTurn: rank == turn % count && rank == start, at: now)
            if best.map({ (load, distance) < ($0.load, $0.distance) }) ?? true { best = (index, load, distance) }
            rank += 1
        }
        return best?.index
    }

    /// Thousandths of requests under way, by which addresses are compared; for round robin 0. During a slow start they weigh more, except
    /// in the turns that the address takes: otherwise it would get nothing while the others have little to do.
    private func load(of index: Int, isItsTurn: Bool, at now: MonotonicTime) -> Int {
        let outstanding = settings.balance == .leastOutstanding ? endpoints[index].outstanding : 0
        let share = endpoints[index].health.share(at: now, settings.outliers)
        guard share < EndpointHealth.whole, !isItsTurn else { return outstanding * 1_000 }
        return settings.balance == .roundRobin ? 1 : (outstanding + 1) * 1_000 * EndpointHealth.whole / share - 1_000
    }

    /// Which addresses a request may take. It begins with the best, and widens while there is none.
    struct Eligibility {
        private enum Preference { case available, usable, any }
        private var preference = Preference.available
        private let condition: Condition
        private let avoided: Int?
        private let now: MonotonicTime

        fileprivate init(_ condition: Condition, _ avoided: Int?, _ now: MonotonicTime) {
            (self.condition, self.avoided, self.now) = (condition, avoided, now)
        }

        func admits(_ index: Int, _ endpoint: borrowing Endpoint) -> Bool {
            guard !endpoint.isRetired, endpoint.health.isHealthy || condition.ignoresProbes else { return false }
            switch preference {
            case .available: return index != avoided && (condition.isPanicking && avoided == nil || endpoint.health.isAvailable(at: now))
            case .usable: return index != avoided
            case .any: return true
            }
        }

        /// Whether there was anything to widen.
        fileprivate mutating func widen() -> Bool {
            switch preference {
            case .available: preference = .usable
            case .usable: preference = .any
            case .any: return false
            }
            return true
        }
    }

    /// How many of the addresses may be used.
    struct Condition: Equatable {
        var total = 0
        /// Those that do not fail their probes.
        var healthy = 0
        /// Those of them that are not out.
        var available = 0
        /// Whether absences are ignored, and whether failed probes are.
        var isPanicking = false
        var ignoresProbes = false
    }

    func condition(at now: MonotonicTime) -> Condition {
        var condition = Condition()
        for index in endpoints.indices where !endpoints[index].isRetired {
            condition.total += 1
            if endpoints[index].health.isHealthy { condition.healthy += 1 }
            if endpoints[index].health.isAvailable(at: now) { condition.available += 1 }
        }
        let least = settings.outliers.panic * condition.total
        condition.isPanicking = condition.available * 100 < least
        condition.ignoresProbes = condition.healthy * 100 < least
        return condition
    }

    /// Addresses that requests may be sent to.
    func availableCount(at now: MonotonicTime) -> Int { endpoints.count { !$0.isRetired && $0.health.isAvailable(at: now) } }

    /// Adopts new settings and addresses. An address that stays keeps its state; one that is gone is retired, but keeps its index
    /// while it is in use. One that joins others starts slowly. A verdict of probes ends with the probes: those of an upstream without
    /// health checks, and that of an address which is gone, for another worker may have no place left that remembers it.
    mutating func adopt(_ settings: UpstreamSettings, addresses: [UpstreamAddress], at now: MonotonicTime = MonotonicTime(nanoseconds: 0)) {
        let endsProbes = self.settings.health != nil && settings.health == nil
        self.settings = settings
        isRanked = addresses.haveRanks
        budget.adopt(percent: settings.retryPercent)
        let stays = endpoints.contains { endpoint in !endpoint.isRetired && addresses.contains { endpoint.address.isSame(as: $0) } }
        for index in endpoints.indices {
            let same = addresses.first { endpoints[index].address.isSame(as: $0) }
            if endpoints[index].isRetired, same != nil, stays { endpoints[index].health.joined(at: now, settings.outliers) }
            endpoints[index].isRetired = same == nil
            if let same { endpoints[index].address = same }
            if endsProbes || same == nil {
                endpoints[index].health.forgetProbes()
                records[index].forgetProbes()
            }
        }
        for address in addresses where !endpoints.contains(where: { $0.address.isSame(as: address) }) {
            var endpoint = Endpoint(address: address)
            if stays { endpoint.health.joined(at: now, settings.outliers) }
            if let free = endpoints.firstIndex(where: { $0.isRetired && $0.connections == 0 && $0.outstanding == 0 }) {
                endpoints[free] = endpoint
                windows[free] = AnswerWindow()
                records[free] = EjectionRecord()
            } else {
                endpoints.append(endpoint)
                windows.append(AnswerWindow())
                records.append(EjectionRecord())
            }
        }
        prepareWindows()
    }
}
