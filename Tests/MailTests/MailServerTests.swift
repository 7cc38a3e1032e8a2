import TestThreads
import Testing
import Wire

@testable import Mail

@Suite(.ownThread) struct MailServerTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let text: String
        let url: String
        var user: String?
        var password: String?
        var demandsTLS = false
        var authorityFile: String?
        var testDescription: String { text }
    }

    @Test(arguments: [
        Case(text: "smtp://127.0.0.1:1025", url: "smtp://127.0.0.1:1025"),
        Case(text: "smtp://mail.example.org", url: "smtp://mail.example.org:587"),
        Case(text: "smtps://mail.example.org/", url: "smtps://mail.example.org:465", demandsTLS: true),
        Case(text: "smtp://[::1]:25", url: "smtp://[::1]:25"),
        Case(
            text: "smtps://ada:secret@Mail.Example.org:4650", url: "smtps://mail.example.org:4650", user: "ada", password: "secret",
            demandsTLS: true),
        Case(
            text: "smtp://ada%40example.org:p%25%3A%2F%3f@h:1", url: "smtp://h:1", user: "ada@example.org", password: "p%:/?",
            demandsTLS: true),
        Case(text: "smtp://ada:a:b@c@h:1", url: "smtp://h:1", user: "ada", password: "a:b@c", demandsTLS: true),
        Case(text: "smtp://ada:secret@localhost:1025", url: "smtp://localhost:1025", user: "ada", password: "secret"),
        Case(text: "smtp://ada:secret@127.0.0.1:1025", url: "smtp://127.0.0.1:1025", user: "ada", password: "secret"),
        Case(
            text: "smtp://ada:secret@127.example.org:1025", url: "smtp://127.example.org:1025", user: "ada", password: "secret",
            demandsTLS: true),
        Case(text: "smtps://h?tls-ca=/etc/ca.pem", url: "smtps://h:465", demandsTLS: true, authorityFile: "/etc/ca.pem"),
    ])
    func aURLIsParsedIntoServerLoginAndOptions(_ expected: Case) throws {
        let server = try MailServer(expected.text)
        #expect(server.url == expected.url)
        #expect(server.user == expected.user)
        #expect(server.password == expected.password)
        #expect(server.demandsTLS == expected.demandsTLS)
        #expect(server.authorityFile == expected.authorityFile)
    }

    @Test(arguments: [
        "", "mail.example.org", "http://mail.example.org", "smtp://", "smtps://:465", "smtp://h:0", "smtp://h:99999", "smtp://h/x",
        "smtp://ada@h", "smtp://:secret@h", "smtp://ada:%zz@h", "smtp://ada:%0d%0aQUIT@h", "smtp://ada:%00@h", "smtp://h?x=1",
        "smtp://h?tls-ca=",
    ])
    func invalidMailServersAreRefusedWithoutShowingThem(_ text: String) {
        let failure = #expect(throws: ParseError.self) { try MailServer(text) }
        #expect(failure?.text.contains("secret") == false)
    }
}
