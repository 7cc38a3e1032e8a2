internal import Accounts
internal import Synchronization
internal import Wire

/// The live switches of this gateway: those of the store, which all its gateways have within a second, or without a store the process's own,
/// which end with it.
///
/// A kind of switch is a word and a follower, which gives the workers what they need of it.
final class SwitchBoard: Sendable {
    /// Called with all switches of a kind, at the start and after each change of any. `isAnew`: changes may have been missed. Must not block.
    typealias Follower = @Sendable (_ switches: [LiveSwitch], _ isAnew: Bool) -> Void

    fileprivate struct State {
        var switches: [LiveSwitch] = []
        var followers: [(kind: String, follower: Follower)] = []
        /// The version of the newest switch of the process's own.
        var newest: Int64 = 0
    }

    private let state = Mutex(State())

    /// The name of a switch of this kind.
    static func name(_ kind: String, of subject: String) -> String { "\(kind)/\(subject)" }

    /// Before the gateway starts.
    func follow(_ kind: String, _ follower: @escaping Follower) {
        state.withLock { $0.followers.append((kind, follower)) }
    }

    /// A switch that has not ended; nil if it is not set.
    func current(_ name: String, at now: WallTime) -> LiveSwitch? {
        state.withLock { $0.switches.first { $0.name == name && !$0.hasEnded(at: now) } }
    }

    /// Those of a kind that have not ended.
    func all(_ kind: String, at now: WallTime) -> [LiveSwitch] {
        state.withLock { $0.switches.filter { $0.name.hasPrefix(kind + "/") && !$0.hasEnded(at: now) } }
    }

    /// The store has been read. Readings come one after the other.
    func read(_ switches: [LiveSwitch], isAnew: Bool) {
        state.withLock { state in
            state.switches = switches
            state.publish(isAnew: isAnew)
        }
    }

    /// Sets a switch of the process's own, as `SwitchRecords.set` does; returns whether.
    func setOwn(_ name: String, to value: String?, until: WallTime?, after version: Int64?, at now: WallTime) -> Bool {
        state.withLock { state in
            let place = state.switches.firstIndex { $0.name == name }
            guard version == nil || version == place.map({ state.switches[$0].version }) ?? 0 else { return false }
            let former = place.map { state.switches.remove(at: $0) }
            state.newest += 1
            if let value {
                let since = former.flatMap { $0.hasEnded(at: now) ? nil : $0.since } ?? now
                state.switches.append(LiveSwitch(name: name, value: value, version: state.newest, expiresAt: until, since: since))
            }
            state.publish(isAnew: false)
            return true
        }
    }
}

extension SwitchBoard.State {
    fileprivate func publish(isAnew: Bool) {
        for (kind, follower) in followers { follower(switches.filter { $0.name.hasPrefix(kind + "/") }, isAnew) }
    }
}

extension LiveSwitch {
    func hasEnded(at now: WallTime) -> Bool { expiresAt.map { $0 <= now } ?? false }

    /// The part of the name behind its kind.
    var subject: Substring { name.firstIndex(of: "/").map { name[name.index(after: $0)...] } ?? name[...] }
}

/// How a change of a live switch ended.
enum SwitchOutcome: Equatable {
    /// It counts at every live gateway.
    case everywhere
    /// It is stored, and counts soon: a gateway has not said within a second that it does there.
    case stored
    /// The switch was changed meanwhile.
    case superseded
}
