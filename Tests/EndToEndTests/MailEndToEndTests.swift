import Foundation
import TestServers
import TestThreads
import Testing

/// Codes and reset links on their way from the running gateway to a mail server that others wrote.
@Suite(.ownThread) struct MailEndToEndTests {
    private static func settings(_ port: Int) -> String {
        [
            Gateway.contracts, "SMTP_URL=smtp://127.0.0.1:\(port)", "TOLLGATE_MAIL_FROM=\"Example <no-reply@example.org>\"",
            "TOLLGATE_RESET_URL=https://app.example.org/reset",
        ].joined(separator: "\n")
    }

    /// The mail to `recipient`, with what its two parts say.
    private static func mail(
        _ sink: MailSink, to recipient: String, after count: Int = 0
    ) throws -> (mail: MailSink.Received, plain: String, html: String) {
        try eventually("a mail to \(recipient)") { sink.received.count { $0.to == [recipient] } > count }
        guard let mail = sink.received.last(where: { $0.to == [recipient] }) else { throw Fault("no mail") }
        #expect(mail.type == "multipart/alternative" && mail.defects == [])
        #expect(mail.parts.map(\.type) == ["text/plain", "text/html"])
        guard mail.parts.count == 2 else { throw Fault("\(mail)") }
        return (mail, mail.parts[0].text, mail.parts[1].text)
    }

    @Test func aCodeAndALinkArriveAndDoWhatTheyShould() throws {
        let sink = try MailSink()
        let gateway = try Gateway(Self.settings(sink.port))
        _ = try gateway.signUp("ada@example.org")

        let first = try Self.mail(sink, to: "ada@example.org")
        #expect(first.mail.from == "no-reply@example.org" && first.mail.headers["From"] == "Example <no-reply@example.org>")
        #expect(first.mail.headers["Subject"] == "Confirm your email for Example")
        guard let code = first.plain.firstMatch(of: /\b\d{6}\b/).map({ String($0.output) }) else { throw Fault("no code: \(first.plain)") }
        #expect(first.html.contains(code))
        let verified = try gateway.send("POST /auth/otp/verify", #"{"email":"ada@example.org","type":"email","token":"\#(code)"}"#)
        #expect(verified.status == 200)

        #expect(try gateway.send("POST /auth/password/forgot", #"{"email":"ada@example.org"}"#).status == 200)
        let second = try Self.mail(sink, to: "ada@example.org", after: 1)
        guard let link = second.plain.firstMatch(of: /https:\/\/app\.example\.org\/reset\?token=([A-Za-z0-9_-]+)/) else {
            throw Fault("no link: \(second.plain)")
        }
        #expect(second.html.contains("href=\"\(link.output.0)\""))
        let reset = try gateway.send("POST /auth/password/reset", #"{"token":"\#(link.output.1)","new_password":"another password"}"#)
        #expect(reset.status == 200)
        #expect(try gateway.send("POST /auth/signin", credentials("ada@example.org", "another password")).status == 200)
        // What was sent is not kept.
        #expect(try gateway.outbox().isEmpty)
        let log = gateway.process.complaints.now.joined(separator: "\n")
        #expect(!log.contains(code) && !log.contains(link.output.1) && !log.contains("ada@example.org"))
    }

    /// The app is answered while the mail server is down; the message comes when that is back.
    @Test func aMailServerThatIsDownHoldsUpNoAnswer() throws {
        let place = try Listening.refusing()
        let gateway = try Gateway(Self.settings(place.port))
        _ = try gateway.signUp("ada@example.org")
        try gateway.waitForLog("message postponed")
        let sink = try MailSink(port: place.port)
        let mail = try Self.mail(sink, to: "ada@example.org")
        guard let code = mail.plain.firstMatch(of: /\b\d{6}\b/) else { throw Fault("no code") }
        let body = #"{"email":"ada@example.org","type":"email","token":"\#(code.output)"}"#
        #expect(try gateway.send("POST /auth/otp/verify", body).status == 200)
        #expect(sink.received.count == 1)
    }

    /// A mail server that takes connections and says nothing: answers come at once, however many wait behind it.
    @Test func aMailServerThatHangsHoldsUpNoAnswer() throws {
        let silent = try Upstream.raw { connection, _ in _ = connection.takeRest() }
        let gateway = try Gateway(Self.settings(silent.port))
        for number in 0..<20 {
            #expect(try gateway.send("POST /auth/email/code", #"{"email":"u\#(number)@example.org"}"#).status == 200)
        }
        try silent.connections.wait(for: "a connection of the gateway") { $0 > 0 }
    }

    /// A code by SMS: one that the webhook would not take at first comes again.
    @Test func aCodeArrivesBySMS() throws {
        let count = Watched(0)
        let webhook = try Upstream { _, connection in
            count.change { $0 += 1 }
            let status = count.now == 1 ? "503 Service Unavailable" : "204 No Content"
            try connection.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        }
        let gateway = try Gateway([Gateway.contracts, "TOLLGATE_SMS_URL=\(webhook.url)/sms"].joined(separator: "\n"))
        let tokens = try gateway.signUp("ada@example.org")
        let asked = try gateway.send("POST /auth/otp/resend", #"{"phone":"+15555550123","type":"phone_change"}"#, bearer: tokens.access)
        #expect(asked.status == 200)
        let requests = try webhook.requests.wait(for: "two tries") { $0.count == 2 }
        #expect(requests[0].body == requests[1].body)
        let message = try JSON(requests[1].text)
        #expect(message["to"].text == "+15555550123")
        guard let code = message["text"].text?.firstMatch(of: /\b\d{6}\b/) else { throw Fault("no code: \(message)") }
        let body = #"{"phone":"+15555550123","type":"phone_change","token":"\#(code.output)"}"#
        let verified = try gateway.send("POST /auth/otp/verify", body, bearer: tokens.access)
        #expect(verified.status == 200)
        #expect(try JSON(verified.text)["user"]["phone"].text == "+15555550123")
        #expect(!gateway.process.complaints.now.contains { $0.contains(code.output) || $0.contains("5555550123") })
    }
}
