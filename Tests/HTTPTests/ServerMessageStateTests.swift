import Testing

@testable import HTTP

/// One client connection, as its owner would tell it.
@Suite struct ServerMessageStateTests {
    private var state = ServerMessageState()

    private mutating func get(keepAlive: Bool = true, minorVersion: UInt8 = 1) -> ServerAction {
        state.headReceived(hasBody: false, keepAlive: keepAlive, minorVersion: minorVersion, expectsContinue: false)
    }

    private mutating func post(expectsContinue: Bool = false) -> ServerAction {
        state.headReceived(hasBody: true, keepAlive: true, minorVersion: 1, expectsContinue: expectsContinue)
    }

    @Test("A connection carries request after request")
    mutating func keepAlive() {
        for _ in 0..<3 {
            #expect(get() == .waitForAnswer)
            #expect(state.answerStarted(untilClose: false, unread: 0) == .implied)
            #expect(state.answerFinished() == .readHead)
        }
        #expect(post() == .readBody)
        #expect(state.bodyWanted(hasArrived: true) == .readBody)
        #expect(state.bodyReceived() == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .implied)
        #expect(state.answerFinished() == .readHead)
        #expect(state.isIdle)
    }

    @Test("A client that asks for the end gets it, and no lingering")
    mutating func clientCloses() {
        #expect(get(keepAlive: false) == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: false))
        #expect(state.phase == .closing)
    }

    @Test("HTTP/1.0 stays only when asked, and is told so")
    mutating func oldClient() {
        #expect(get(minorVersion: 0) == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .keepAlive)
        #expect(state.answerFinished() == .readHead)
        #expect(get(keepAlive: false, minorVersion: 0) == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .close)
    }

    @Test("An answer without a length of its own ends with the connection")
    mutating func untilClose() {
        #expect(get() == .waitForAnswer)
        #expect(state.answerStarted(untilClose: true, unread: 0) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: true))
    }

    @Test("100 Continue is sent when the body is wanted, once")
    mutating func continues() {
        #expect(post(expectsContinue: true) == .readBody)
        #expect(state.bodyWanted(hasArrived: false) == .sendContinue)
        #expect(state.bodyWanted(hasArrived: false) == .readBody)
    }

    @Test("A client that did not wait for 100 Continue gets none")
    mutating func impatientClient() {
        #expect(post(expectsContinue: true) == .readBody)
        #expect(state.bodyWanted(hasArrived: true) == .readBody)
    }

    @Test("A refusal before 100 Continue ends the connection")
    mutating func refusedExpectation() {
        #expect(post(expectsContinue: true) == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: 10) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: true))
    }

    @Test("A refusal with a short rest of the body reads over it and stays")
    mutating func shortRest() {
        #expect(post() == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: ServerMessageState.discardLimit) == .implied)
        #expect(state.answerFinished() == .discardBody)
        #expect(state.discarded(60000) == .discardBody)
        #expect(state.discarded(5536) == .discardBody)
        #expect(state.bodyReceived() == .readHead)
    }

    @Test(
        "A refusal with a long or unknown rest of the body closes",
        arguments: [ServerMessageState.discardLimit + 1, nil])
    mutating func longRest(unread: UInt64?) {
        #expect(post() == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: unread) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: true))
    }

    @Test("A rest that turns out to be long closes while it is read over")
    mutating func restTurnsOutLong() {
        #expect(post() == .readBody)
        #expect(state.bodyWanted(hasArrived: true) == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: nil) == .implied)
        #expect(state.answerFinished() == .discardBody)
        #expect(state.discarded(65536) == .discardBody)
        #expect(state.discarded(1) == .closeAfterFlush(lingering: true))
    }

    @Test("The body may end while an early answer is under way")
    mutating func earlyAnswer() {
        #expect(post() == .readBody)
        #expect(state.bodyWanted(hasArrived: true) == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: nil) == .implied)
        #expect(state.bodyReceived() == .carryOn)
        #expect(state.answerFinished() == .readHead)
    }

    @Test("A client that has shut its sending side still gets its answer")
    mutating func halfClosed() {
        #expect(get() == .waitForAnswer)
        #expect(state.inputClosed() == .carryOn)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: false))
    }

    @Test("The same when the answer has begun")
    mutating func halfClosedLate() {
        #expect(get() == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .implied)
        #expect(state.inputClosed() == .carryOn)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: false))
    }

    @Test("A body that breaks off takes the exchange down with it")
    mutating func truncatedBody() {
        #expect(post() == .readBody)
        #expect(state.inputClosed() == .abort)
    }

    @Test("But not a refusal that does not depend on it")
    mutating func truncatedUnwantedBody() {
        #expect(post() == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: 10) == .implied)
        #expect(state.inputClosed() == .carryOn)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: false))
    }

    @Test("A malformed head is refused, and the connection ends")
    mutating func malformedHead() {
        #expect(state.requestFaulted() == .refuse)
        #expect(state.answerStarted(untilClose: false, unread: nil) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: true))
    }

    @Test("A malformed body is refused if nothing was answered, and cut off if the answer depends on it")
    mutating func malformedBody() {
        #expect(post() == .readBody)
        #expect(state.requestFaulted() == .refuse)
        #expect(state.answerStarted(untilClose: false, unread: nil) == .close)

        state = ServerMessageState()
        #expect(post() == .readBody)
        #expect(state.bodyWanted(hasArrived: true) == .readBody)
        #expect(state.answerStarted(untilClose: false, unread: nil) == .implied)
        #expect(state.requestFaulted() == .abort)
    }

    @Test("Draining ends an idle connection at once and any other with its answer")
    mutating func drain() {
        #expect(state.drainRequested(headBegun: false) == .closeAfterFlush(lingering: false))

        state = ServerMessageState()
        #expect(get() == .waitForAnswer)
        #expect(state.drainRequested(headBegun: false) == .carryOn)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .close)
        #expect(state.answerFinished() == .closeAfterFlush(lingering: true))

        state = ServerMessageState()
        #expect(state.drainRequested(headBegun: true) == .carryOn)
        #expect(get() == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .close)
    }

    @Test("An answer that breaks off closes the connection, so that it does not look whole")
    mutating func brokenAnswer() {
        #expect(get() == .waitForAnswer)
        #expect(state.answerStarted(untilClose: false, unread: 0) == .implied)
        #expect(state.answerBroken() == .abort)
        #expect(state.phase == .closing)
    }

    @Test("It fits into every idle connection")
    func size() {
        #expect(MemoryLayout<ServerMessageState>.size <= 16)
        #expect(MemoryLayout<BodyDecoder>.size <= 40)
        #expect(MemoryLayout<HeadScan>.size <= 8)
    }
}
