internal import Synchronization
internal import Wire

/// When the configuration in force was loaded, and how the last reload went, for the admin API.
final class LoadHistory: Sendable {
    struct Reload: Sendable {
        let at: WallTime
        /// Why it was refused; empty if it was adopted.
        var faults: [String] = []
        /// The changed settings that were not adopted, with the reason.
        var warnings: [String] = []
    }

    struct State: Sendable {
        let loadedAt: WallTime
        /// 1 for the configuration of the start; each that is adopted has the next number.
        var version = 1
        /// nil before the first reload.
        var lastReload: Reload?
    }

    private let state: Mutex<State>

    init(at now: WallTime) { state = Mutex(State(loadedAt: now)) }

    var now: State { state.withLock { $0 } }

    func adopted(at now: WallTime, warnings: [String]) {
        state.withLock { $0 = State(loadedAt: now, version: $0.version + 1, lastReload: Reload(at: now, warnings: warnings)) }
    }

    func refused(at now: WallTime, _ faults: [String]) { state.withLock { $0.lastReload = Reload(at: now, faults: faults) } }
}
