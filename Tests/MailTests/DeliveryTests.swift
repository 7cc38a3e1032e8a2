import Foundation
import Synchronization
import TestServers
import TestThreads
import Testing
import Transport
import Wire

@testable import Mail

/// The threads with real servers at the other end.
@Suite(.ownThread) struct DeliveryTests {
    private let folder = TemporaryFolder()

    private final class Log: Sendable {
        private let all = Mutex<[DeliveryEvent]>([])
        func add(_ event: DeliveryEvent) { all.withLock { $0.append(event) } }
        var events: [DeliveryEvent] { all.withLock { $0 } }
    }

    private let log = Log()

    private func plan(_ smtp: String?, sms: String? = nil) throws -> MailPlan {
        let from = try Sender("Zoë <no-reply@example.org>")
        let route = try smtp.map { text throws(ParseError) in MailPlan.MailRoute(server: try MailServer(text), from: from) }
        return MailPlan(mail: route, sender: from.name, smsURL: sms, resetURL: nil, publicURL: "https://api.example.org/x")
    }

    private func thread(_ plan: MailPlan) throws -> DeliveryThreads {
        let log = log
        return try DeliveryThreads(plan, outbox: Outbox(dataDirectory: folder.path)) { log.add($0) }
    }

    private func eventually(_ what: Comment, _ isReached: () -> Bool) {
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: 60_000)
        while EventLoop.now().monotonic < deadline, !isReached() { usleep(5_000) }
        #expect(isReached(), what)
    }

    private func expectSent(_ sink: MailSink, by thread: DeliveryThreads, isEncrypted: Bool, login: String?) throws {
        thread.send(message())
        eventually("the mail arrives") { sink.received.count == 1 }
        let mail = try #require(sink.received.first)
        #expect(mail.isEncrypted == isEncrypted)
        #expect(mail.login == login)
        #expect(mail.from == "no-reply@example.org")
        #expect(mail.to == ["ada@example.org"])
        thread.stop(within: 60_000)
        #expect(log.events == [.sent(message(), attempts: 1)])
    }

    @Test func aMailHasTheSameTextAsPlainTextAndHTML() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        try expectSent(sink, by: thread, isEncrypted: false, login: nil)
        let mail = try #require(sink.received.first)
        #expect(mail.defects == [])
        #expect(mail.type == "multipart/alternative")
        #expect(mail.parts.map(\.type) == ["text/plain", "text/html"])
        #expect(mail.parts.first?.text == sampleLetter.plainText)
        #expect(mail.parts.last?.text == sampleLetter.html)
        #expect(mail.maxLine <= 998)
        #expect(mail.headers["Subject"] == "Confirm your email for Zoë")
        #expect(mail.headers["From"] == "Zoë <no-reply@example.org>")
        #expect(mail.headers["To"] == "ada@example.org")
        #expect(mail.headers["Message-ID"] == "<id@example.org>")
        #expect(mail.headers["MIME-Version"] == "1.0" || mail.headers["Mime-Version"] == "1.0")
        #expect(mail.headers["Auto-Submitted"] == "auto-generated")
        #expect(mail.headers["Date"]?.hasSuffix(" +0000") == true)
    }

    @Test func mailIsUpgradedAndThePasswordIsGivenUnderTLS() throws {
        let certificate = try TestCertificate()
        let sink = try MailSink(.starttls, certificate: certificate.files, login: ("ada", "p@ss"))
        let thread = try thread(plan("smtp://ada:p%40ss@localhost:\(sink.port)?tls-ca=\(certificate.chain)"))
        try expectSent(sink, by: thread, isEncrypted: true, login: "ada")
    }

    @Test func mailByTLSAtOnceIsSent() throws {
        let certificate = try TestCertificate()
        let sink = try MailSink(.tls, certificate: certificate.files)
        let thread = try thread(plan("smtps://localhost:\(sink.port)?tls-ca=\(certificate.chain)"))
        try expectSent(sink, by: thread, isEncrypted: true, login: nil)
    }

    @Test(arguments: [MailSink.Security.starttls, .tls]) func aServerWithAnUntrustedCertificateGetsNoMail(
        _ security: MailSink.Security
    ) throws {
        let (own, other) = (try TestCertificate(), try TestCertificate())
        // Their files stay until the end.
        defer { withExtendedLifetime((own, other)) {} }
        let sink = try MailSink(security, certificate: own.files)
        let scheme = security == .tls ? "smtps" : "smtp"
        let thread = try thread(plan("\(scheme)://localhost:\(sink.port)?tls-ca=\(other.chain)"))
        thread.send(message())
        eventually("an attempt fails") { !log.events.isEmpty }
        thread.stop(within: 0)
        guard case .postponed(_, let reason, _)? = log.events.first else { return #expect(Bool(false), "\(log.events)") }
        #expect(reason.contains("certificate") || reason.contains("SSL"), "\(reason)")
        #expect(sink.received.isEmpty)
    }

    @Test func aWrongPasswordIsReportedAndRetried() throws {
        let certificate = try TestCertificate()
        let sink = try MailSink(.starttls, certificate: certificate.files, login: ("ada", "right"))
        let thread = try thread(plan("smtp://ada:wrong@localhost:\(sink.port)?tls-ca=\(certificate.chain)"))
        thread.send(message())
        eventually("an attempt fails") { !log.events.isEmpty }
        thread.stop(within: 0)
        guard case .postponed(_, let reason, _)? = log.events.first else { return #expect(Bool(false), "\(log.events)") }
        #expect(reason.contains("535"), "\(reason)")
        #expect(!reason.contains("wrong"))
    }

    @Test func aServerThatIsBusyIsAskedAgain() throws {
        let sink = try MailSink(answers: ["451 busy"])
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        thread.send(message())
        eventually("the mail arrives") { sink.received.count == 1 }
        thread.stop(within: 60_000)
        #expect(log.events.count == 2)
        #expect(log.events.last == .sent(message(), attempts: 2))
    }

    @Test func aServerThatRefusesForGoodIsNotAskedAgain() throws {
        let sink = try MailSink(answers: ["550 no such user"])
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        thread.send(message())
        eventually("the refusal is told") { !log.events.isEmpty }
        thread.stop(within: 60_000)
        guard case .refused(_, let reason)? = log.events.first else { return #expect(Bool(false), "\(log.events)") }
        #expect(reason.hasSuffix("the server answered 550"))
        #expect(log.events.count == 1)
        #expect(sink.received.isEmpty)
    }

    @Test func anAddressThatWouldBreakTheHeaderIsNeverSent() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        let evil = message(to: "ada@example.org\r\nBcc: eve@example.org")
        thread.send(evil)
        thread.send(message())
        eventually("the good one arrives") { sink.received.count == 1 }
        thread.stop(within: 60_000)
        #expect(sink.received.allSatisfy { $0.to == ["ada@example.org"] && $0.headers["Bcc"] == nil })
        #expect(log.events.contains(.refused(evil, reason: "mail cannot be addressed to the recipient")))
    }

    @Test func aHangingServerBlocksNoCallerAndItsMailIsReportedLostAtTheEnd() throws {
        let silent = try SilentServer()
        let thread = try thread(plan("smtp://127.0.0.1:\(silent.port)"))
        for number in 0..<20 { thread.send(message(id: "\(number)")) }
        thread.stop(within: 200)
        #expect(Set(log.events.map(\.id)) == Set((0..<20).map { "\($0)" }))
        #expect(log.events.allSatisfy { $0.isLoss })
        // Taking leave would mean to wait for the answer, which is not in this server.
        #expect(try silent.heard() == [])
    }

    /// libcurl counts the time for an answer, but looks at it only when it is called.
    @Test func aServerThatStopsAnsweringIsGivenUpAtItsLateAnswer() throws {
        let hung = try SilentServer(greeting: "220 hello\r\n")
        var timeouts = MailTimeouts()
        (timeouts.answerMilliseconds, timeouts.totalMilliseconds) = (1_000, 3_600_000)
        let log = log
        let thread = try DeliveryThreads(
            plan("smtp://127.0.0.1:\(hung.port)"), outbox: Outbox(dataDirectory: folder.path), timeouts: timeouts
        ) { log.add($0) }
        thread.send(message())
        eventually("it is postponed") { !log.events.isEmpty }
        guard case .postponed(_, let reason, _)? = log.events.first else { return #expect(Bool(false), "\(log.events)") }
        #expect(reason.hasSuffix("the last answer was 220"))
        thread.stop(within: 0)
    }

    @Test func manyMailsGoOut() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        for number in 0..<50 { thread.send(message(to: "u\(number)@example.org", id: "\(number)")) }
        eventually("all arrive") { sink.received.count == 50 }
        thread.stop(within: 60_000)
        #expect(Set(sink.received.flatMap(\.to)) == Set((0..<50).map { "u\($0)@example.org" }))
        #expect(log.events.count == 50)
    }

    /// libcurl blocks the thread of a mail until the server has taken it.
    @Test func aServerThatTakesItsTimeForOneMailHoldsNoOtherUp() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        let slow = message(to: "slow@example.org", id: "slow")
        thread.send(slow)
        for number in 0..<30 { thread.send(message(to: "u\(number)@example.org", id: "\(number)")) }
        eventually("the others arrive") { log.events.count == 30 }
        #expect(!sink.received.contains { $0.to == ["slow@example.org"] })
        thread.send(message(to: "open@example.org", id: "open"))
        eventually("it arrives, too") { log.events.count == 32 }
        thread.stop(within: 60_000)
        #expect(log.events.contains(.sent(slow, attempts: 1)), "\(log.events)")
    }

    @Test func theEndWaitsForNoServerThatTakesItsTime() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        let slow = message(to: "slow@example.org", id: "slow")
        thread.send(slow)
        thread.send(message(id: "quick"))
        eventually("the other arrives") { log.events.count == 1 }
        thread.stop(within: 200)
        #expect(log.events.last == .lost(slow, reason: "shutting down") && log.events.count == 2, "\(log.events)")
    }

    @Test func messagesToOneRecipientArriveInTheirOrder() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:\(sink.port)"))
        for number in 0..<20 { thread.send(message(to: "u\(number % 2)@example.org", id: "\(number)")) }
        eventually("all arrive") { sink.received.count == 20 }
        thread.stop(within: 60_000)
        for user in 0..<2 {
            let ids = sink.received.filter { $0.to == ["u\(user)@example.org"] }.compactMap { $0.headers["Message-ID"] }
            #expect(ids == (0..<10).map { "<\($0 * 2 + user)@example.org>" })
        }
    }

    @Test func withoutAServerMailLandsInTheOutbox() throws {
        let thread = try thread(plan(nil))
        let sms = message(to: "+4915112345678", body: .sms("123456 is your code."))
        thread.send(message())
        thread.send(sms)
        thread.stop(within: 60_000)
        let entries = try Outbox(dataDirectory: folder.path).read()
        #expect(entries.map(\.to) == ["ada@example.org", "+4915112345678"])
        #expect(entries.map(\.channel) == [.mail, .sms])
        #expect(log.events == [.sent(message(), attempts: 1), .sent(sms, attempts: 1)])
    }

    @Test func aNewPlanCountsFromTheNextAttemptOn() throws {
        let sink = try MailSink()
        let thread = try thread(plan("smtp://127.0.0.1:1"))
        thread.send(message())
        eventually("an attempt fails") { !log.events.isEmpty }
        thread.adopt(try plan("smtp://127.0.0.1:\(sink.port)"))
        eventually("the mail arrives") { sink.received.count == 1 }
        thread.stop(within: 60_000)
    }

    @Test func aTextMessageIsPostedToTheWebhook() throws {
        let hook = try WebhookStub([202])
        let thread = try thread(plan(nil, sms: hook.url))
        let sms = message(to: "+4915112345678", body: .sms("123456 is \"your\" code."))
        thread.send(sms)
        eventually("it is told") { log.events == [.sent(sms, attempts: 1)] }
        thread.stop(within: 60_000)
        let request = try #require(hook.requests.first)
        #expect(request.head.hasPrefix("POST /sms?key=k HTTP/1.1\r\n"))
        #expect(request.head.contains("Content-Type: application/json\r\n"))
        let body = try #require(try JSONSerialization.jsonObject(with: request.body) as? [String: String])
        #expect(body == ["to": "+4915112345678", "text": "123456 is \"your\" code."])
    }

    @Test func aWebhookThatFailsIsAskedAgainAndNeverFollowedElsewhere() throws {
        let hook = try WebhookStub([500, 302, 200])
        let thread = try thread(plan(nil, sms: hook.url))
        let sms = message(to: "+4915112345678", body: .sms("x"))
        thread.send(sms)
        eventually("it fails") { !log.events.isEmpty }
        // At the end what waits is tried at once.
        thread.stop(within: 60_000)
        #expect(log.events.last == .sent(sms, attempts: 3))
        #expect(hook.requests.count == 3)
        #expect(hook.requests.allSatisfy { $0.head.hasPrefix("POST /sms?key=k ") })
    }
}

extension DeliveryEvent {
    fileprivate var id: String {
        switch self {
        case .sent(let message, _), .postponed(let message, _, _), .lost(let message, _), .refused(let message, _): message.id
        }
    }

    fileprivate var isLoss: Bool { if case .lost = self { true } else { false } }
}
