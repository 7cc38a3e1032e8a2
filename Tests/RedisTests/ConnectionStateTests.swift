import TestThreads
import Testing
import Wire

@testable import Redis

@Suite(.ownThread) struct ConnectionStateTests {
    private func time(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    private func state(usesTLS: Bool = false, greeting: Int = 0) -> RedisConnectionState {
        RedisConnectionState(usesTLS: usesTLS, greetingLength: greeting, connectTimeout: 1_000, now: time(10))
    }

    @Test func `a plain connection without a greeting serves as soon as it is connected`() {
        var state = state()
        #expect(state.timePassed(time(9), random: 0) == .carryOn)
        #expect(state.timePassed(time(10), random: 0) == .connect)
        #expect(state.deadline == time(1_010))
        #expect(state.connected(time(11)) == .serve)
        #expect(state.deadline == nil)
    }

    @Test func `TLS and each answer of the greeting come first`() {
        var state = state(usesTLS: true, greeting: 2)
        #expect(state.timePassed(time(10), random: 0) == .connect)
        #expect(state.connected(time(20)) == .handshake)
        #expect(state.secured(time(30)) == .greet)
        #expect(state.greetingAnswered(time(40)) == .carryOn)
        #expect(state.greetingAnswered(time(50)) == .serve)
        #expect(state.phase == .serving(since: time(50)))
    }

    @Test func `one deadline is for all that comes before serving`() {
        var state = state(usesTLS: true, greeting: 1)
        _ = state.timePassed(time(10), random: 0)
        _ = state.connected(time(500))
        _ = state.secured(time(1_000))
        #expect(state.timePassed(time(1_009), random: 0) == .carryOn)
        #expect(state.timePassed(time(1_010), random: 0) == .close)
        #expect(state.phase == .waiting(until: time(1_035)))
    }

    @Test func `the backoff doubles up to two seconds, up to half of it jitter`() {
        for (random, expected) in [
            (0, [25, 50, 100, 200, 400, 800, 1_000, 1_000]), (25_000_000, [50, 75, 125, 225, 425, 825, 1_025, 1_025]),
        ] as [(UInt64, [UInt64])] {
            var state = state()
            var waits: [UInt64] = []
            for attempt in 1...8 as ClosedRange<UInt64> {
                _ = state.timePassed(time(attempt * 10_000), random: random)
                #expect(state.failed(time(attempt * 10_000), random: random) == .close)
                guard case .waiting(let until) = state.phase else { return #expect(Bool(false)) }
                waits.append(until.nanoseconds / 1_000_000 - attempt * 10_000)
            }
            #expect(waits == expected)
        }
        var random = SplitMix64(seed: 2)
        for _ in 0..<1_000 {
            var state = state()
            _ = state.timePassed(time(10), random: 0)
            _ = state.failed(time(10), random: random.next())
            guard case .waiting(let until) = state.phase else { return #expect(Bool(false)) }
            #expect(until >= time(35) && until <= time(60))
        }
    }

    @Test(arguments: [(1_999, 100), (2_000, 25)] as [(UInt64, UInt64)])
    func `only a connection that served for two seconds ends the series of failures`(_ served: UInt64, _ wait: UInt64) {
        var state = state()
        for attempt in 1...2 as ClosedRange<UInt64> {
            _ = state.timePassed(time(attempt * 1_000), random: 0)
            _ = state.failed(time(attempt * 1_000), random: 0)
        }
        _ = state.timePassed(time(20_000), random: 0)
        _ = state.connected(time(20_000))
        #expect(state.failed(time(20_000 + served), random: 0) == .close)
        #expect(state.phase == .waiting(until: time(20_000 + served + wait)))
    }

    // MARK: the walk

    private enum Event: CaseIterable, Hashable {
        case deadlineCame, timePassed, connected, secured, greetingAnswered, failed, retryNow, ended
    }

    private func apply(_ event: Event, to state: inout RedisConnectionState, _ now: MonotonicTime) -> RedisAction {
        switch event {
        case .deadlineCame: return state.timePassed(max(now, state.deadline ?? now), random: 7)
        case .timePassed: return state.timePassed(now, random: 7)
        case .connected: return state.connected(now)
        case .secured: return state.secured(now)
        case .greetingAnswered: return state.greetingAnswered(now)
        case .failed: return state.failed(now, random: 7)
        case .retryNow:
            state.retryNow(now)
            return .carryOn
        case .ended: return state.ended()
        }
    }

    /// Invariants of each step: the driver has a socket from `connect` to `close`.
    private func broken(
        _ action: RedisAction, _ before: RedisConnectionState.Phase, _ after: RedisConnectionState.Phase, _ usesTLS: Bool
    ) -> String? {
        let (had, has) = (before.hasSocket, after.hasSocket)
        switch action {
        case .connect where had: return "a second connection"
        case .connect where !has: return "a connection that nobody waits for"
        case .close where !had || has: return "nothing to close, or something left"
        case .handshake where !usesTLS: return "TLS that nobody wants"
        case .greet, .handshake, .serve, .connect, .close, .carryOn: break
        }
        if had != has, action != .connect, action != .close { return "a socket that the driver was not told of" }
        if case .serving = after, before != after, action != .serve { return "serving in responseTimeout" }
        if case .ended = before, after != .ended || action != .carryOn { return "life after the end" }
        if usesTLS, case .connecting = before, action == .greet || action == .serve { return "a password in the clear" }
        return nil
    }

    @Test(arguments: [false, true], [0, 1, 3])
    func `no series of events breaks what the driver relies on`(_ usesTLS: Bool, _ greeting: Int) {
        let start = state(usesTLS: usesTLS, greeting: greeting)
        var seen: Set<RedisConnectionState> = [start]
        var frontier = [start]
        var phases: Set<String> = []
        for step in 1...9 as ClosedRange<UInt64> {
            var reached: Set<RedisConnectionState> = []
            for state in frontier {
                phases.insert(state.phase.name)
                for event in Event.allCases {
                    var next = state
                    let action = apply(event, to: &next, time(10 + step * 100))
                    if let promise = broken(action, state.phase, next.phase, usesTLS) {
                        Issue.record("\(promise): \(event) in \(state.phase) gave \(action) and \(next.phase)")
                    }
                    if seen.insert(next).inserted { reached.insert(next) }
                }
            }
            frontier = Array(reached)
        }
        let expected: Set<String> = ["waiting", "connecting", "serving", "ended"]
        #expect(phases == expected.union(usesTLS ? ["handshaking"] : []).union(greeting > 0 ? ["greeting"] : []))
    }
}

extension RedisConnectionState.Phase {
    fileprivate var hasSocket: Bool {
        switch self {
        case .waiting, .ended: false
        case .connecting, .handshaking, .greeting, .serving: true
        }
    }

    fileprivate var name: String { "\(self)".prefix { $0 != "(" }.description }
}
