internal import Accounts
internal import Gate
internal import Proxy
internal import Synchronization
internal import Telemetry
internal import Wire

/// The census of apps at this gateway: takes the workers' counts once a minute and adds them to the store's. Without a store it keeps those
/// of a week itself.
final class AppBoard: Sendable {
    fileprivate struct State {
        /// Not in the store yet, or without one all.
        var uses: [AppUse.Key: AppUse] = [:]
        /// Since the start, by gate and version.
        var totals: [AppUse.Key: UInt64] = [:]
        var isWriting = false
    }

    /// How often counts are taken.
    static let milliseconds: UInt64 = 60_000
    /// So many days are shown, this one included.
    static let days: Int64 = 7
    /// How many versions metrics name.
    static let mostNamed = 50
    /// The most rows, and totals, that are kept.
    static let mostRows = 4_096

    private let workers: WorkerBroadcast
    private let state = Mutex(State())

    init(_ workers: WorkerBroadcast) { self.workers = workers }

    /// Takes the workers' counts, and adds them to the store by `add`, which is nil without one.
    func collect(at now: WallTime, _ add: (([AppUse]) async throws(AccountFailure) -> Void)?) async {
        let tallies = await workers.apps()
        let unsaved = state.withLock { state in
            for tally in tallies { state.count(AppUse(tally)) }
            let oldest = Self.oldest(now)
            state.uses = state.uses.filter { $0.key.day >= oldest }
            guard add != nil, !state.isWriting else { return [AppUse]() }
            state.isWriting = !state.uses.isEmpty
            return Array(state.uses.values)
        }
        guard let add, !unsaved.isEmpty else { return }
        do throws(AccountFailure) {
            try await add(unsaved)
            state.withLock { state in
                state.isWriting = false
                for use in unsaved {
                    let rest = state.uses[use.key].map { $0.requests - min($0.requests, use.requests) }
                    if rest == 0 { state.uses[use.key] = nil } else if let rest { state.uses[use.key]?.requests = rest }
                }
            }
        } catch {
            // It is logged where the store is asked, and tried again with the next counts.
            state.withLock { $0.isWriting = false }
        }
    }

    /// Those that are not in the store.
    var uses: [AppUse] { state.withLock { Array($0.uses.values) } }

    static func oldest(_ now: WallTime) -> Int64 { now.seconds / 86_400 - days + 1 }

    /// The requests of the most frequent versions since the start, and of all others together.
    var counts: [AppCount] {
        let totals = state.withLock { $0.totals }
        let sorted = totals.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        var counts = sorted.prefix(Self.mostNamed).map { AppCount(gate: $0.key.gate, version: $0.key.version, requests: $0.value) }
        for (key, requests) in sorted.dropFirst(Self.mostNamed) {
            if let index = counts.firstIndex(where: { $0.gate == key.gate && $0.version == AppUse.other }) {
                counts[index].requests += requests
            } else {
                counts.append(AppCount(gate: key.gate, version: AppUse.other, requests: requests))
            }
        }
        return counts
    }
}

extension AppBoard.State {
    fileprivate mutating func count(_ use: AppUse) {
        var key = use.key
        if uses[key] == nil, uses.count >= AppBoard.mostRows { key.version = AppUse.other }
        uses[key, default: AppUse(key, requests: 0, users: UserSketch())].join(AppUse(key, requests: use.requests, users: use.users))
        var total = AppUse.Key(day: 0, gate: use.key.gate, version: use.key.version)
        if totals[total] == nil, totals.count >= AppBoard.mostRows { total.version = AppUse.other }
        totals[total, default: 0] += use.requests
    }
}

extension AppUse {
    fileprivate init(_ tally: AppCensus.Tally) {
        let version =
            switch tally.version {
            case .numbers(let version): version.text
            case .none: AppUse.none
            case .other: AppUse.other
            }
        self.init(Key(day: tally.day, gate: tally.gate ?? "-", version: version), requests: tally.requests, users: tally.users)
    }
}
