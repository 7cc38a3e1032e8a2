import TestThreads
import Testing
import Wire

@testable import Mail

/// A message as tests send it; to ada, or with an id of its own to a recipient of its own.
func message(
    to recipient: String? = nil, body: OutgoingMessage.Body = .mail(sampleLetter), usefulSeconds: Int64 = 600,
    id: String = "id"
) -> OutgoingMessage {
    OutgoingMessage(
        id: id, kind: "sign-up code", recipient: recipient ?? (id == "id" ? "ada@example.org" : "\(id)@example.org"), body: body,
        secret: .code("123456"), usefulSeconds: usefulSeconds)
}

let sampleLetter = Letter(
    subject: "Confirm your email for Zoë", blocks: [.text("Enter this code:"), .code("123456"), .note("It is good for 10 minutes.")],
    signature: "Zoë & Co")

@Suite(.ownThread) struct DeliveryQueueTests {
    private var queue = DeliveryQueue()

    private func time(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: 1_000_000_000 * (seconds + 1)) }

    @Test mutating func aMessageIsDueAtOnceAndGoneWhenSent() throws {
        #expect(queue.add(message(), now: time(0)) == nil)
        let taken = queue.startNext(now: time(0))
        let entry = try #require(taken)
        #expect(queue.startNext(now: time(0)) == nil, "it is under way")
        #expect(queue.nextDue == nil)
        #expect(queue.finish(entry.id, .sent, now: time(1), jitter: 0) == .sent(message(), attempts: 1))
        #expect(queue.isEmpty)
        #expect(queue.finish(entry.id, .sent, now: time(1), jitter: 0) == nil)
    }

    @Test mutating func aFailureIsTriedAgainLaterAndLater() throws {
        _ = queue.add(message(), now: time(0))
        var now = time(0)
        var pauses: [UInt64] = []
        while let entry = queue.startNext(now: now) {
            guard case .postponed(_, _, let pause) = queue.finish(entry.id, .failed("away"), now: now, jitter: 0) else { break }
            pauses.append(pause)
            #expect(queue.startNext(now: now) == nil)
            now = now.advanced(milliseconds: pause)
        }
        #expect(pauses == [750, 3_000, 11_250, 45_000, 90_000, 225_000])
        #expect(queue.isEmpty, "a code that has expired is not worth sending")
    }

    /// Otherwise every thread would wait for it, also those for text messages.
    @Test mutating func aServerThatDoesNotAnswerGetsOneMessageAtATime() throws {
        for number in 0..<6 { _ = queue.add(message(id: "\(number)"), now: time(0)) }
        _ = queue.add(message(to: "+4915112345678", body: .sms("x")), now: time(0))
        let taken = (queue.startNext(now: time(0)), queue.startNext(now: time(0)))
        let (first, second) = (try #require(taken.0), try #require(taken.1))
        _ = queue.finish(first.id, .unanswered("late"), now: time(1), jitter: 0)
        // The second one is still under way: of the others, the text message alone may go.
        let text = queue.startNext(now: time(1))
        #expect(text?.message.recipient == "+4915112345678")
        #expect(queue.startNext(now: time(1)) == nil && queue.nextDue == nil)
        _ = queue.finish(second.id, .unanswered("late"), now: time(2), jitter: 0)
        let next = queue.startNext(now: time(2))
        let third = try #require(next)
        #expect(queue.startNext(now: time(2)) == nil)
        // An answer ends it, even a bad one.
        _ = queue.finish(third.id, .failed("busy"), now: time(3), jitter: 0)
        #expect(queue.startNext(now: time(3)) != nil && queue.startNext(now: time(3)) != nil)
    }

    @Test mutating func aRefusalIsFinal() throws {
        _ = queue.add(message(), now: time(0))
        let taken = queue.startNext(now: time(0))
        let entry = try #require(taken)
        #expect(
            queue.finish(entry.id, .refused("no such mailbox"), now: time(0), jitter: 0) == .refused(message(), reason: "no such mailbox"))
        #expect(queue.isEmpty)
    }

    @Test mutating func theMessageThatIsDueLongestGoesFirst() throws {
        for (second, name) in ["a", "b", "c"].enumerated() { _ = queue.add(message(id: name), now: time(UInt64(second))) }
        let taken = queue.startNext(now: time(5))
        let first = try #require(taken)
        #expect(first.message.id == "a")
        _ = queue.finish(first.id, .failed("away"), now: time(5), jitter: 0)
        #expect(queue.startNext(now: time(5))?.message.id == "b")
        #expect(queue.startNext(now: time(5))?.message.id == "c")
        #expect(queue.startNext(now: time(5)) == nil)
        #expect(queue.startNext(now: time(6))?.message.id == "a")
    }

    @Test mutating func pastItsBoundAMessageIsLostAndSaidSo() {
        for _ in 0..<DeliveryQueue.capacity { #expect(queue.add(message(), now: time(0)) == nil) }
        #expect(queue.add(message(id: "x"), now: time(0)) == .lost(message(id: "x"), reason: "the delivery queue is full"))
    }

    /// Else of two codes the older one could come last.
    @Test mutating func oneRecipientHasOneMessageUnderWay() throws {
        for name in ["a", "b"] { _ = queue.add(message(to: "ada@example.org", id: name), for: try address("192.0.2.1"), now: time(0)) }
        _ = queue.add(message(to: "bob@example.org", id: "c"), for: try address("192.0.2.1"), now: time(1))
        let taken = queue.startNext(now: time(1))
        let first = try #require(taken)
        #expect(first.message.id == "a")
        #expect(queue.nextDue == time(1))
        #expect(queue.startNext(now: time(1))?.message.id == "c")
        #expect(queue.startNext(now: time(1)) == nil && queue.nextDue == nil)
        _ = queue.finish(first.id, .failed("away"), now: time(1), jitter: 0)
        #expect(queue.startNext(now: time(1))?.message.id == "b", "a retry holds nothing up")
        #expect(queue.startNext(now: time(2)) == nil)
    }

    private func address(_ text: String) throws -> IPAddress { try #require(IPAddress(parsing: text)) }

    /// A flood fills the queue only for itself. IPv6 addresses of one /64 are one client.
    @Test mutating func aFullQueueMakesRoomForAClientWithFewerMessages() throws {
        for number in 0..<DeliveryQueue.capacity {
            #expect(queue.add(message(id: "\(number)"), for: try address("2001:db8::\(number % 9)"), now: time(0)) == nil)
        }
        let (flood, other) = (try address("2001:db8::9"), try address("192.0.2.1"))
        let full = DeliveryQueue.fullReason
        #expect(queue.add(message(id: "x"), for: flood, now: time(1)) == .lost(message(id: "x"), reason: full))
        #expect(queue.add(message(id: "y"), for: other, now: time(1)) == .lost(message(id: "999"), reason: full))
        #expect(queue.startNext(now: time(1))?.message.id == "0")
        #expect(queue.startNext(now: time(1))?.message.id == "y", "it waits for no more than one of the flood")
    }

    @Test mutating func clientsTakeTurns() throws {
        let sizes = [5, 2, 1]
        for (client, size) in sizes.enumerated() {
            for number in 0..<size {
                _ = queue.add(message(id: "\(client)\(number)"), for: try address("192.0.2.\(client)"), now: time(UInt64(client)))
            }
        }
        var order: [String] = []
        while let entry = queue.startNext(now: time(9)) { order.append(entry.message.id) }
        #expect(order == ["00", "10", "20", "01", "11", "02", "03", "04"])
    }

    @Test mutating func atTheEndWaitingMessagesAreTriedOnceMoreAndTheRestIsReportedLost() throws {
        _ = queue.add(message(id: "a"), now: time(0))
        _ = queue.add(message(id: "b"), now: time(0))
        let taken = queue.startNext(now: time(0))
        let entry = try #require(taken)
        _ = queue.finish(entry.id, .failed("away"), now: time(0), jitter: 0)
        _ = queue.startNext(now: time(0))
        #expect(queue.startNext(now: time(0)) == nil)
        queue.makeAllDue(now: time(0))
        #expect(queue.startNext(now: time(0))?.message.id == "a")
        let events = queue.dropAll("shutting down")
        #expect(events == ["a", "b"].map { .lost(message(id: $0), reason: "shutting down") })
        #expect(queue.isEmpty)
    }

    @Test(arguments: 1...20) func aPauseIsSpreadByAQuarterEachWay(_ failures: Int) {
        let pauses = [0, UInt64.max / 2, UInt64.max].map { RetrySchedule.pause(failures: failures, jitter: $0) }
        let nominal = [1_000, 4_000, 15_000, 60_000, 120_000, 300_000][min(failures, 6) - 1] as UInt64
        for pause in pauses { #expect((nominal * 3 / 4...nominal * 5 / 4).contains(pause)) }
    }

    @Test(arguments: [
        (nil, 250, false, DeliveryOutcome.sent), ("Couldn't connect", 0, false, .unanswered("Couldn't connect")),
        ("Timeout was reached", 220, false, .unanswered("Timeout was reached, the last answer was 220")),
        ("broke off", 550, false, .refused("broke off, the server answered 550")),
        ("broke off", 451, false, .failed("broke off, the server answered 451")),
        ("login denied", 535, true, .failed("login denied, the server answered 535")),
    ])
    func anAnswerOfAMailServerIsJudged(_ failure: String?, _ status: Int, _ isDenied: Bool, _ outcome: DeliveryOutcome) {
        #expect(.mail(failure: failure, status: status, isLoginDenied: isDenied) == outcome)
    }

    @Test(arguments: [
        (200, true), (202, true), (204, true), (299, true), (301, false), (500, false), (503, false), (429, false), (408, false),
        (0, false),
    ])
    func anAnswerOfAWebhookIsGoodOrComesAgain(_ status: Int, _ isGood: Bool) {
        let outcome = DeliveryOutcome.webhook(failure: nil, status: status)
        #expect(outcome == (isGood ? .sent : .failed("the server answered \(status)")))
    }

    @Test(arguments: [400, 401, 404, 410, 422]) func aWebhookThatRefusesIsNotAskedAgain(_ status: Int) {
        #expect(.webhook(failure: nil, status: status) == DeliveryOutcome.refused("the server answered \(status)"))
        #expect(.webhook(failure: "broke off", status: status) == DeliveryOutcome.unanswered("broke off"))
    }

    @Test func theLogHasADigestOfTheRecipient() {
        #expect(message(to: "ada@example.org").recipientDigest == "cfe00dde46ef9426")
        #expect(message(to: "bob@example.org").recipientDigest != message().recipientDigest)
    }
}
