import Testing
import Wire

@testable import Redis

/// Which server the sentinels' answers make the primary.
@Suite struct SentinelStateTests {
    private static let a = RedisEndpoint.Address.host("10.0.0.1", port: 6379)
    private static let b = RedisEndpoint.Address.host("10.0.0.2", port: 6379)
    private static let c = RedisEndpoint.Address.host("10.0.0.3", port: 6379)

    private func time(_ milliseconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: milliseconds * 1_000_000) }

    /// One round at `milliseconds`, with one answer a sentinel; nil: it fails.
    private func round(_ state: inout SentinelState, _ milliseconds: UInt64, _ answers: [SentinelState.Answer?]) {
        let now = time(milliseconds)
        state.asked(Set(answers.indices), now)
        for (number, answer) in answers.enumerated() {
            if let answer { state.answered(number, answer, now) } else { state.failed(number, now) }
        }
    }

    /// A machine that has confirmed A at epoch 3 at 1 s.
    private func settled() -> SentinelState {
        var state = SentinelState(now: time(1_000))
        round(&state, 1_000, Array(repeating: .primary(Self.a, epoch: 3), count: 3))
        state.confirmed()
        round(&state, 1_100, Array(repeating: .primary(Self.a, epoch: 3), count: 3))
        return state
    }

    @Test func `a named server is the primary only when it has confirmed it`() {
        var state = SentinelState(now: time(1_000))
        #expect(state.deadline == time(1_100) && state.problem == .asking)
        state.hinted()
        #expect(state.deadline == time(1_020))
        round(&state, 1_000, [.primary(Self.a, epoch: 0), nil, .primary(Self.a, epoch: 0)])
        #expect(state.candidate == Self.a && state.primary == nil)
        #expect(state.deadline == time(1_100))
        state.confirmed()
        #expect(state.primary == Self.a && state.candidate == nil && state.problem == nil)
        round(&state, 1_100, [.primary(Self.a, epoch: 0), nil, .primary(Self.a, epoch: 0)])
        #expect(state.deadline == time(2_100))
    }

    @Test func `a round waits for each sentinel that was asked`() {
        var state = SentinelState(now: time(0))
        state.asked([0, 1], time(0))
        #expect(state.deadline == nil)
        state.answered(0, .primary(Self.a, epoch: 1), time(1))
        #expect(state.candidate == nil)
        state.answered(1, .primary(Self.b, epoch: 2), time(1))
        #expect(state.candidate == Self.b)
        // A reply that comes twice, or late, is no part of a round.
        state.answered(0, .primary(Self.c, epoch: 9), time(2))
        #expect(state.candidate == Self.b)
    }

    @Test func `the highest epoch counts, however many are behind`() {
        var state = settled()
        round(&state, 2_000, [.primary(Self.a, epoch: 3), .primary(Self.b, epoch: 4), .primary(Self.a, epoch: 3)])
        #expect(state.candidate == Self.b && state.primary == Self.a, "the present one stays until the other is confirmed")
        state.confirmed()
        #expect(state.primary == Self.b)
        // Those that lag behind change nothing.
        round(&state, 2_100, [.primary(Self.a, epoch: 3), .primary(Self.b, epoch: 4), .primary(Self.a, epoch: 3)])
        #expect(state.primary == Self.b && state.candidate == nil)
    }

    @Test func `of one epoch the address counts that most name`() {
        var state = SentinelState(now: time(0))
        round(&state, 0, [.primary(Self.b, epoch: 1), .primary(Self.a, epoch: 1), .primary(Self.a, epoch: 1)])
        #expect(state.candidate == Self.a)
    }

    @Test func `a sentinel that names a replica takes no working primary away`() {
        var state = settled()
        round(&state, 2_000, [.primary(Self.b, epoch: 9), .primary(Self.a, epoch: 3), nil])
        #expect(state.candidate == Self.b)
        state.refused(time(2_001))
        #expect(state.primary == Self.a && state.candidate == nil && state.problem == nil)
        // Meanwhile it is not asked again, and then it is.
        round(&state, 2_100, [.primary(Self.b, epoch: 9), .primary(Self.a, epoch: 3), nil])
        #expect(state.candidate == nil && state.deadline == time(3_100))
        round(&state, 3_100, [.primary(Self.b, epoch: 9), .primary(Self.a, epoch: 3), nil])
        #expect(state.candidate == Self.b)
    }

    @Test func `a replica that all sentinels name is asked again at once`() {
        var state = SentinelState(now: time(0))
        round(&state, 0, [.primary(Self.b, epoch: 4), .primary(Self.b, epoch: 4)])
        state.refused(time(1))
        #expect(state.problem == .replica(Self.b))
        round(&state, 100, [.primary(Self.b, epoch: 4), .primary(Self.b, epoch: 4)])
        #expect(state.candidate == Self.b)
    }

    @Test func `another server that cannot be reached ends the old one all the same`() {
        var state = settled()
        round(&state, 2_000, [.primary(Self.b, epoch: 4), .primary(Self.a, epoch: 3)])
        state.unreachable()
        #expect(state.primary == nil && state.problem == .unreachable(Self.b))
        #expect(state.deadline == time(2_100))
    }

    @Test func `silent sentinels take no primary away, and a lost one needs them`() {
        var state = settled()
        round(&state, 2_000, [nil, nil, nil])
        #expect(state.primary == Self.a && state.problem == .noSentinelAnswers)
        state.asked([], time(2_100))
        #expect(state.primary == Self.a && state.deadline == time(2_200), "none could be asked")
        state.primaryLost()
        #expect(state.primary == nil && state.deadline == time(2_120))
        round(&state, 2_120, [nil, nil, nil])
        #expect(state.primary == nil && state.candidate == nil && state.problem == .noSentinelAnswers)
    }

    @Test func `a primary that is lost must be confirmed anew, even the same`() {
        var state = settled()
        state.primaryLost()
        #expect(state.primary == nil)
        round(&state, 2_000, [.primary(Self.a, epoch: 3)])
        #expect(state.primary == nil && state.candidate == Self.a)
        state.unreachable()
        #expect(state.problem == .unreachable(Self.a))
        round(&state, 2_100, [.primary(Self.a, epoch: 3)])
        state.confirmed()
        #expect(state.primary == Self.a && state.problem == nil)
    }

    @Test func `an unknown name is a problem only if no sentinel knows it`() {
        var state = settled()
        round(&state, 2_000, [.unknownName, .primary(Self.a, epoch: 3), nil])
        #expect(state.problem == nil && state.primary == Self.a)
        round(&state, 3_000, [.unknownName, nil, .unknownName])
        #expect(state.problem == .unknownName && state.primary == Self.a)
    }

    @Test func `a hint brings the next round forward, not closer than 20 ms`() {
        var state = settled()
        #expect(state.deadline == time(2_100))
        state.hinted()
        #expect(state.deadline == time(1_120))
        state.asked([0], time(1_500))
        state.hinted()
        state.answered(0, .primary(Self.a, epoch: 3), time(1_501))
        #expect(state.deadline == time(1_520), "a hint during a round is for the next")
        round(&state, 1_520, [.primary(Self.a, epoch: 3)])
        #expect(state.deadline == time(2_520))
    }

    /// Random events: the primary is a server that was confirmed after it was named, and not lost since.
    @Test(arguments: 1...50 as ClosedRange<UInt64>)
    func `no series of events makes an unconfirmed server the primary`(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var state = SentinelState(now: time(0))
        var now: UInt64 = 0
        let servers = [Self.a, Self.b, Self.c]
        for _ in 0..<400 {
            now += random.next() % 200
            let before = (primary: state.primary, candidate: state.candidate)
            switch random.next() % 8 {
            case 0:
                state.confirmed()
                #expect(state.primary == before.candidate ?? before.primary && state.candidate == nil)
            case 1:
                state.refused(time(now))
                #expect(state.primary == before.primary && state.candidate == nil)
            case 2:
                state.unreachable()
                #expect(state.primary == (before.candidate == nil ? before.primary : nil))
            case 3:
                state.primaryLost()
                #expect(state.primary == nil)
            case 4:
                state.hinted()
                #expect(state.primary == before.primary)
            default:
                round(
                    &state, now,
                    (0..<3).map { _ in
                        switch random.next() % 6 {
                        case 0: nil
                        case 1: .unknownName
                        default: .primary(servers[Int(random.next() % 3)], epoch: random.next() % 4)
                        }
                    })
                #expect(state.primary == before.primary)
                #expect(state.candidate == nil || state.candidate != state.primary)
            }
            if let deadline = state.deadline { #expect(deadline <= time(now + SentinelState.steadyPeriod), "it asks again soon") }
        }
    }
}
