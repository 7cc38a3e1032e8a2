import Testing

@testable import HTTP

/// Walks every sequence of events that can happen on a connection, to the last state, beside a plain account of what the
/// client and the upstream have seen; each step must keep what HTTP promises.
@Suite struct ServerMessageWalkTests {
    enum Event: Hashable {
        case head(hasBody: Bool, keepAlive: Bool, minorVersion: UInt8, expects: Bool)
        case bodyWanted(hasArrived: Bool)
        case bodyAbandoned, bodyReceived, faulted
        case answerStarted(untilClose: Bool, unread: UInt64?)
        case answerFinished, answerBroken
        case discarded(Int)
        case drain(headBegun: Bool)
        case inputClosed, idledOut

        static let all: [Event] = {
            var events: [Event] = [
                .bodyWanted(hasArrived: false), .bodyWanted(hasArrived: true), .bodyAbandoned, .bodyReceived, .faulted,
                .answerFinished, .answerBroken, .discarded(20000), .discarded(65537), .inputClosed,
                .drain(headBegun: false),
                .drain(headBegun: true), .idledOut,
            ]
            for bits in 0..<16 {
                events.append(
                    .head(
                        hasBody: bits & 1 > 0, keepAlive: bits & 2 > 0, minorVersion: bits & 4 > 0 ? 0 : 1,
                        expects: bits & 8 > 0))
            }
            for unread: UInt64? in [nil, 100, 1_000_000] {
                events += [
                    .answerStarted(untilClose: false, unread: unread), .answerStarted(untilClose: true, unread: unread),
                ]
            }
            return events
        }()
    }

    /// The knowledge of both sides about the connection.
    struct Account: Hashable {
        enum Request { case none, arriving, complete, broken }
        enum Answer { case none, started, finished }
        var request = Request.none
        var answer = Answer.none
        var keepAlive = false
        var isHTTP10 = false
        var expects = false
        var continued = false
        var bodyWanted = false
        var told: Persistence?
        var untilClose = false
        var inputClosed = false
        var draining = false
        var discarding = false
        var ended = false

        /// Whether this can happen now, if the driver does what it was told.
        func allows(_ event: Event) -> Bool {
            switch event {
            case .head: request == .none && !ended
            case .bodyWanted, .bodyAbandoned: request == .arriving && answer != .finished && !ended
            case .bodyReceived: request == .arriving && !inputClosed && !ended
            case .faulted: (request == .none || request == .arriving) && !ended && !inputClosed
            case .answerStarted: request != .none && answer == .none && !ended
            case .answerFinished, .answerBroken: answer == .started && !ended
            case .discarded: discarding
            case .inputClosed: !inputClosed
            case .drain, .idledOut: true
            }
        }

        /// Records the event itself, before the machine acts on it.
        mutating func note(_ event: Event) {
            switch event {
            case .head(let hasBody, let keepAlive, let minorVersion, let expects):
                request = hasBody ? .arriving : .complete
                self.keepAlive = keepAlive
                isHTTP10 = minorVersion == 0
                self.expects = expects && hasBody
            case .bodyWanted(let hasArrived):
                bodyWanted = true
                if hasArrived { expects = false }
            case .bodyAbandoned: bodyWanted = false
            case .bodyReceived: (request, discarding) = (.complete, false)
            case .faulted: (request, discarding) = (.broken, false)
            case .answerStarted(let untilClose, _):
                answer = .started
                self.untilClose = untilClose
            case .answerFinished: answer = .finished
            case .drain: draining = true
            case .inputClosed: inputClosed = true
            case .answerBroken, .discarded, .idledOut: break
            }
        }
    }

    struct Node: Hashable {
        var state = ServerMessageState()
        var account = Account()
    }

    @Test("No sequence of events breaks a promise of HTTP/1")
    func walk() {
        var seen: Set<Node> = [Node()]
        var waiting = [Node()]
        var steps = 0
        while let node = waiting.popLast() {
            for event in Event.all where node.account.allows(event) {
                steps += 1
                guard let next = step(node, event) else { return }
                if seen.insert(next).inserted { waiting.append(next) }
            }
        }
        #expect(seen.count > 200 && steps > 2000, "the walk reached \(seen.count) states in \(steps) steps")
    }

    /// Takes one step; nil if a promise was broken.
    private func step(_ node: Node, _ event: Event) -> Node? {
        var next = node
        let (action, told) = perform(event, on: &next.state)
        next.account.note(event)
        if let told, case .answerStarted(_, let unread) = event {
            next.account.told = told
            if let broken = brokenPromise(of: told, next.account, unread) { return fail(broken, node, event) }
        }
        if let broken = brokenPromise(of: action, to: event, before: node.account, after: next.account) {
            return fail("\(broken): \(action)", node, event)
        }
        settle(&next.account, action)
        guard (next.state.phase == .closing) == next.account.ended else { return fail("closing is not told", node, event) }
        guard next.state.isIdle == (next.account.request == .none && !next.account.ended) else {
            return fail("idle out of turn", node, event)
        }
        return next
    }

    private func perform(_ event: Event, on state: inout ServerMessageState) -> (ServerAction, Persistence?) {
        switch event {
        case .head(let hasBody, let keepAlive, let minorVersion, let expects):
            let action = state.headReceived(
                hasBody: hasBody, keepAlive: keepAlive, minorVersion: minorVersion, expectsContinue: expects)
            return (action, nil)
        case .answerStarted(let untilClose, let unread):
            return (.carryOn, state.answerStarted(untilClose: untilClose, unread: unread))
        case .bodyAbandoned:
            state.bodyAbandoned()
            return (.carryOn, nil)
        case .bodyWanted(let hasArrived): return (state.bodyWanted(hasArrived: hasArrived), nil)
        case .bodyReceived: return (state.bodyReceived(), nil)
        case .faulted: return (state.requestFaulted(), nil)
        case .answerFinished: return (state.answerFinished(), nil)
        case .answerBroken: return (state.answerBroken(), nil)
        case .discarded(let count): return (state.discarded(count), nil)
        case .drain(let headBegun): return (state.drainRequested(headBegun: headBegun), nil)
        case .inputClosed: return (state.inputClosed(), nil)
        case .idledOut: return (state.idledOut(), nil)
        }
    }

    private func settle(_ account: inout Account, _ action: ServerAction) {
        switch action {
        case .readHead:
            account = Account(draining: account.draining)
        case .sendContinue:
            account.continued = true
            account.expects = false
        case .discardBody:
            account.discarding = true
        case .abort, .closeAfterFlush:
            account.ended = true
            account.discarding = false
        case .readBody, .waitForAnswer, .refuse, .carryOn:
            break
        }
    }

    /// Checks the answer's `Connection` field.
    private func brokenPromise(of told: Persistence, _ account: Account, _ unread: UInt64?) -> String? {
        if told == .close { return nil }
        if account.untilClose { return "content until the close, and no close announced" }
        if !account.keepAlive || account.request == .broken { return "a client's wish or a fault overridden" }
        if account.draining || account.inputClosed { return "another message promised at the end" }
        if (told == .keepAlive) != account.isHTTP10 { return "a field that this version does not need" }
        if account.request == .arriving, !account.bodyWanted {
            if account.expects { return "a body may or may not come" }
            if unread ?? UInt64.max > ServerMessageState.discardLimit { return "a long body that nobody wants" }
        }
        return nil
    }

    private func brokenPromise(of action: ServerAction, to event: Event, before: Account, after: Account) -> String? {
        if before.ended {
            return action == .carryOn || action == .closeAfterFlush(lingering: false) ? nil : "something after the end"
        }
        switch action {
        case .readHead:
            if after.request != .complete || after.answer != .finished { return "a next message before this one ended" }
            if after.told == .close || after.untilClose || after.inputClosed || after.draining {
                return "life after the end"
            }
        case .sendContinue:
            if !before.expects || before.continued || before.answer != .none { return "a 100 that nobody waits for" }
        case .readBody:
            if after.request != .arriving || after.answer == .finished { return "no body to read" }
        case .discardBody:
            if after.request != .arriving || after.answer != .finished || after.told == .close {
                return "nothing to drop"
            }
        case .waitForAnswer:
            if after.request != .complete || after.answer != .none { return "no answer to wait for" }
        case .refuse:
            if after.answer != .none || after.request != .broken { return "a second answer" }
        case .abort:
            if after.answer == .finished { return "a whole answer cut" }
            if before.answer == .started, event != .answerBroken, !after.bodyWanted {
                return "an answer cut for a body it does not need"
            }
        case .closeAfterFlush(let lingering):
            if after.request != .none && after.answer != .finished { return "an answer owed" }
            let clientEnds =
                after.inputClosed || after.request == .none || !after.keepAlive && after.request == .complete
            if !lingering && !clientEnds { return "unread bytes may destroy the answer" }
        case .carryOn:
            break
        }
        return nil
    }

    private func fail(_ promise: String, _ node: Node, _ event: Event) -> Node? {
        Issue.record("\(promise), after \(event) in \(node.account)")
        return nil
    }
}
