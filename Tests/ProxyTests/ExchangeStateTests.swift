import HTTP
import TestThreads
import Testing

@testable import Proxy

/// Walks every sequence of events of an exchange, beside a plain account of what the upstream and the client have got.
@Suite(.ownThread) struct ExchangeStateTests {
    enum Event: Hashable, CaseIterable {
        case waitEntitlement, waitRefresh, waitLimits, waitHandler, waitRoom, waitFetch
        case resumeEntitlement, resumeRefresh, resumeLimits, resumeHandler, resumeRoom, resumeFetch
        case forward, collect
        /// A piece of the body, or its end, as far as the exchange takes it.
        case content, requestEnds
        case connected, flushed, stoppedReading, lostUnanswered, lostWhileAnswering
        case answerHead, answerHeld, answerReleased, upgraded, produced, connectionReleased, answered
    }

    /// The messages that both sides have received, according to the events alone.
    struct Account: Hashable {
        /// Pieces of content that arrived, at most two, and whether the replay buffer holds all of them.
        var hasContent = false
        var replayIsWhole = true
        var upstreamMayHaveSome = false
        var clientHasSome = false
        var hasWholeRequest = false
        var isForwarded: Bool?
        var ended = false
    }

    struct Node: Hashable {
        var state = ExchangeState()
        var account = Account()
    }

    private static let waits: [(wait: Event, resume: Event, kind: ExchangeState.Wait)] = [
        (.waitEntitlement, .resumeEntitlement, .entitlement), (.waitRefresh, .resumeRefresh, .refresh),
        (.waitLimits, .resumeLimits, .limits), (.waitHandler, .resumeHandler, .handler), (.waitRoom, .resumeRoom, .room),
        (.waitFetch, .resumeFetch, .fetch),
    ]

    /// The state after `event`; nil where a driver cannot meet it.
    private func step(_ node: Node, _ event: Event) -> Node? {
        var next = node
        let phase = node.state.phase
        guard !node.account.ended else { return nil }
        if let wait = Self.waits.first(where: { $0.wait == event }) {
            switch wait.kind {
            case .entitlement, .refresh: guard phase == .deciding, node.account.isForwarded == nil else { return nil }
            case .limits:
                guard phase == .connecting || phase == .collecting || phase == .deciding && node.account.isForwarded == nil,
                    !node.account.hasContent
                else { return nil }
            case .handler: guard phase == .collecting, node.account.hasWholeRequest else { return nil }
            case .room: guard phase == .connecting else { return nil }
            case .fetch: guard phase == .connecting, node.account.hasWholeRequest else { return nil }
            }
            next.state.wait(for: wait.kind)
            return next
        }
        if let wait = Self.waits.first(where: { $0.resume == event }) {
            let isResumed = next.state.resumed(from: wait.kind)
            #expect(isResumed == (phase == .waiting(wait.kind)))
            guard isResumed else {
                #expect(next.state == node.state)
                return nil
            }
            guard wait.kind == .limits || wait.kind == .room, let isForwarded = node.account.isForwarded else { return next }
            if isForwarded {
                next.state.forward(isWhole: false)
            } else {
                next.state.collect(isWhole: false)
            }
            return next
        }
        let takesBody = node.state.takesBody(hasReplayRoom: true, isFlushed: true) && !node.account.hasWholeRequest
        switch event {
        case .forward, .collect:
            // One that has waited for a fetch may be forwarded by itself.
            guard phase == .deciding, node.account.isForwarded == nil || event == .forward && node.account.isForwarded == true else {
                return nil
            }
            next.account.isForwarded = event == .forward
            if event == .forward { next.state.forward(isWhole: false) } else { next.state.collect(isWhole: false) }
        case .content:
            guard takesBody else { return nil }
            next.account.hasContent = true
            switch BodyRoute(node.state) {
            case .copy where phase == .relaying, .discard:
                next.state.streamed()
                next.account.replayIsWhole = false
                if !node.state.upstreamStoppedReading { next.account.upstreamMayHaveSome = true }
            case .copy, .collect: break
            }
        case .requestEnds:
            guard takesBody else { return nil }
            next.state.requestReceived()
            next.account.hasWholeRequest = true
        case .connected:
            guard phase == .connecting else { return nil }
            next.state.connected()
        case .flushed:
            guard phase == .relaying else { return nil }
            next.state.sent()
            next.account.upstreamMayHaveSome = true
        case .stoppedReading:
            guard phase == .relaying else { return nil }
            next.state.stoppedReading()
        case .lostUnanswered:
            guard phase == .connecting || phase == .relaying, node.state.answer == .none else { return nil }
            return lost(node)
        case .lostWhileAnswering:
            guard phase == .relaying || phase == .tunnel, node.state.answer != .none else { return nil }
            for loss in [UpstreamLoss.brokenAnswer, .timeout] {
                #expect(!node.state.isRetryable(after: loss, isIdempotent: true), "\(node)")
            }
            next.state.disconnected()
            next.state.ended()
            next.account.ended = true
        case .answerHead, .answerHeld:
            guard phase == .relaying || phase == .producing, node.state.answer == .none else { return nil }
            next.state.answerBegan(isHeld: event == .answerHeld)
            next.account.clientHasSome = event == .answerHead
        case .upgraded:
            guard phase == .relaying, node.state.answer == .none else { return nil }
            next.state.upgraded()
            next.account.clientHasSome = true
        case .answerReleased:
            guard node.state.answer == .held, phase == .relaying || phase == .producing else { return nil }
            next.state.answerReleased()
            next.account.clientHasSome = true
        case .produced:
            // A handler's answer leaves a collected request here, news of a fetch a forwarded one; an entry needs no wait.
            let hasTarget = phase == .deciding && node.account.isForwarded != nil || phase == .collecting
            guard hasTarget, node.account.hasWholeRequest else { return nil }
            next.state.produce()
        case .connectionReleased:
            guard phase == .connecting || phase == .relaying || phase == .tunnel else { return nil }
            next.state.released()
        case .answered:
            next.state.ended()
            next.account.ended = true
        case .waitEntitlement, .waitRefresh, .waitLimits, .waitHandler, .waitRoom, .waitFetch, .resumeEntitlement,
            .resumeRefresh, .resumeLimits, .resumeHandler, .resumeRoom, .resumeFetch:
            Issue.record("handled above")
        }
        return next
    }

    /// A loss before an answer: what may be sent again must be all of the request, and must not be done twice.
    private func lost(_ node: Node) -> Node {
        var next = node
        for isIdempotent in [true, false] {
            if node.state.isRetryable(after: .closedUnanswered, isIdempotent: isIdempotent) {
                #expect(node.account.replayIsWhole, "sent again in part: \(node)")
                #expect(!node.account.clientHasSome, "two answers: \(node)")
                #expect(isIdempotent || !node.account.upstreamMayHaveSome, "done twice: \(node)")
            }
            #expect(!node.state.isRetryable(after: .timeout, isIdempotent: isIdempotent))
            #expect(!node.state.isRetryable(after: .brokenAnswer, isIdempotent: isIdempotent))
        }
        next.state.disconnected()
        if node.state.isRetryable(after: .closedUnanswered, isIdempotent: true) {
            next.state.retried()
            next.account.upstreamMayHaveSome = false
        } else {
            next.state.ended()
            next.account.ended = true
        }
        return next
    }

    @Test func noSequenceOfEventsBreaksAPromise() {
        var seen: Set<Node> = [Node()]
        var open = [Node()]
        while let node = open.popLast() {
            if node.state.phase == .finishing {
                #expect(!node.state.takesBody(hasReplayRoom: true, isFlushed: true), "a body is read that has nowhere to go")
            }
            if case .waiting = node.state.phase {
                #expect(!node.state.takesBody(hasReplayRoom: true, isFlushed: true), "a body is read while the request waits")
            }
            #expect((node.state.answer == .started) == node.account.clientHasSome, "\(node)")
            #expect(node.state.hasWholeRequest == node.account.hasWholeRequest, "\(node)")
            for event in Event.allCases {
                guard let next = step(node, event), seen.insert(next).inserted else { continue }
                open.append(next)
            }
        }
        #expect(seen.count > 50)
        let phases = Set(seen.map(\.state.phase))
        let waits = ExchangeState.Wait.allCases.map { ExchangeState.Phase.waiting($0) }
        #expect(phases == Set([.deciding, .collecting, .producing, .connecting, .relaying, .tunnel, .finishing, .answered] + waits))
    }

    @Test func aBodyIsHeldBackByWhoeverIsSlow() {
        var state = ExchangeState()
        #expect(!state.takesBody(hasReplayRoom: true, isFlushed: true))
        state.forward(isWhole: false)
        #expect(state.takesBody(hasReplayRoom: true, isFlushed: false))
        #expect(!state.takesBody(hasReplayRoom: false, isFlushed: false))
        state.connected()
        #expect(!state.takesBody(hasReplayRoom: true, isFlushed: false))
        #expect(state.takesBody(hasReplayRoom: false, isFlushed: true))
        state.stoppedReading()
        #expect(state.takesBody(hasReplayRoom: false, isFlushed: false))
        #expect(BodyRoute(state) == .discard)
    }
}
