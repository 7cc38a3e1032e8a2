import TestThreads
import Testing
import Wire

@testable import Mail

@Suite(.ownThread) struct LetterTests {
    /// The token goes into an empty parameter of its name, or behind the query.
    @Test func theTokenOfAResetGoesWhereTheLinkHasRoomForIt() {
        let cases = [
            ("https://h/reset", "https://h/reset?token=T"), ("https://h/reset?token=", "https://h/reset?token=T"),
            ("https://h/r?token=&a=1#f", "https://h/r?token=T&a=1#f"),
            ("https://h/r?a=1", "https://h/r?a=1&token=T"), ("https://h/r?a=1&", "https://h/r?a=1&token=T"),
            ("https://h/r?", "https://h/r?token=T"),
            ("https://h/r?xtoken=", "https://h/r?xtoken=&token=T"), ("myapp://reset?token=", "myapp://reset?token=T"),
            ("myapp://reset", "myapp://reset?token=T"),
            ("https://h/#/reset", "https://h/?token=T#/reset"), ("https://h/r?token=x", "https://h/r?token=x&token=T"),
        ]
        for (base, link) in cases { #expect(MessageTemplates.link(base, "T") == link) }
    }

    private let letter = Letter(
        subject: "<b> & \"co\"",
        blocks: [
            .text("Hello <script>"), .code("123456"), .link(url: "https://example.org/reset?a=1&token=x", label: "Choose"), .note("Bye"),
        ], signature: "A & B")

    @Test func thePlainFormHasTheWholeText() {
        let expected = [
            "Hello <script>", "", "    123456", "", "Choose:", "https://example.org/reset?a=1&token=x", "", "Bye", "", "-- ", "A & B", "",
        ]
        #expect(letter.plainText == expected.joined(separator: "\r\n"))
    }

    @Test func theHTMLFormHasTheSameText() {
        for part in ["Hello &lt;script&gt;", ">123456</p>", "href=\"https://example.org/reset?a=1&amp;token=x\"", ">Bye</p>", "A &amp; B"] {
            #expect(letter.html.contains(part), "\(part)")
        }
        #expect(letter.html.contains("<title>&lt;b&gt; &amp; &quot;co&quot;</title>"))
        #expect(!letter.html.contains("<script>"))
    }

    /// External resources would tell the sender who reads the mail.
    @Test func theHTMLFormLoadsNothing() {
        for word in ["src=", "<img", "<link", "url(", "@import"] { #expect(!letter.html.contains(word), "\(word)") }
    }

    @Test func everyLineEndsAsMailDemands() {
        for text in [letter.plainText, letter.html] {
            #expect(text.hasSuffix("\r\n"))
            #expect(!text.replacing("\r\n", with: "").contains { $0 == "\r" || $0 == "\n" })
        }
    }

    @Test func aMailHasTheHeadersThatMailDemands() throws {
        let to = try #require(MailAddress("ada@example.org"))
        let sender = try Sender("Zoë <no-reply@mail.example.org>")
        let mail = Mail(sampleLetter, from: sender, to: to, id: "x1", at: WallTime(seconds: 784_111_777))
        #expect(
            mail.headers == [
                "Date: Sun, 06 Nov 1994 08:49:37 +0000", "From: =?utf-8?Q?Zo=C3=AB?= <no-reply@mail.example.org>", "To: ada@example.org",
                "Subject: =?utf-8?Q?Confirm_your_email_for_Zo=C3=AB?=", "Message-ID: <x1@mail.example.org>",
                "Auto-Submitted: auto-generated",
            ])
    }
}
