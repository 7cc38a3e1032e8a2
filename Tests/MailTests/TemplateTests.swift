import Accounts
import Foundation
import TestThreads
import Testing
import Wire

@testable import Mail

/// Templates of messages, the gateway's own and those of a folder.
@Suite(.ownThread) struct TemplateTests {
    private func plan(_ change: (inout MailPlan) -> Void = { _ in }) -> MailPlan {
        var plan = MailPlan(mail: nil, sender: "Example", smsURL: nil, resetURL: "https://h/r", publicURL: "https://example.org")
        change(&plan)
        return plan
    }

    private func rendered(
        _ content: Message.Content = .code("123456", .signUp, lifetimeSeconds: 600), _ languages: String? = nil, by plan: MailPlan,
        phone: Bool = false
    ) throws -> OutgoingMessage.Body {
        let recipient: Recipient = phone ? .phone(try PhoneNumber("+4915112345678")) : .email(try EmailAddress("ada@example.org"))
        return MessageTemplates(plan: plan).render(Message(to: recipient, content, languages: languages), id: "id").body
    }

    private func letter(
        _ content: Message.Content = .code("123456", .signUp, lifetimeSeconds: 600), _ languages: String? = nil, by plan: MailPlan
    ) throws -> Letter {
        guard case .mail(let letter) = try rendered(content, languages, by: plan) else { throw POSIXError(.EINVAL) }
        return letter
    }

    /// The texts of a folder, by file.
    private func folder(_ texts: [String: String]) throws -> TemporaryFolder {
        let folder = TemporaryFolder()
        for (name, text) in texts {
            let url = URL(filePath: folder.path + "/" + name)
            try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(text.utf8).write(to: url)
        }
        return folder
    }

    private func read(_ texts: [String: String]) throws -> (TemplateSet, TemplateSet.Findings) {
        let folder = try folder(texts)
        var findings = TemplateSet.Findings()
        let set = TemplateSet.read(folder.path, &findings)
        findings.faults = findings.faults.map { $0.replacing(folder.path, with: "DIR") }
        findings.warnings = findings.warnings.map { $0.replacing(folder.path, with: "DIR") }
        return (set, findings)
    }

    @Test func everyMessageHasATextInEveryLanguageOfOurs() {
        for (language, texts) in BuiltInTemplates.texts {
            for name in TemplateName.allCases {
                #expect(texts[name] != nil, "\(name) in \(language)")
                #expect(TemplateSet.builtIn.template(name, for: language).language == language)
            }
        }
    }

    @Test func aMailIsWrittenInTheLanguageOfItsReader() throws {
        let cases = [
            (nil, "en", "Confirm your email for Example"), ("de", "de", "Bestätige deine E-Mail-Adresse für Example"),
            ("de-AT,en;q=0.5", "de", "Bestätige deine E-Mail-Adresse für Example"), ("fr", "en", "Confirm your email for Example"),
            ("fr, de;q=0.8", "de", "Bestätige deine E-Mail-Adresse für Example"),
        ]
        for (languages, language, subject) in cases {
            let letter = try letter(.code("123456", .signUp, lifetimeSeconds: 600), languages, by: plan())
            #expect(letter.subject == subject && letter.language == language, "\(languages ?? "-")")
            #expect(letter.html.contains("<html lang=\"\(language)\">"))
        }
    }

    @Test func aCodeStandsOutAndWhatFollowsIsSmallPrint() throws {
        let letter = try letter(by: plan())
        let note =
            "The code is valid for 10 minutes and for one use. Never share it, not even with someone who claims to be from Example. If you did not sign up, ignore this mail: nothing happens without the code."
        #expect(letter.blocks == [.text("Welcome! To confirm your email, enter this code:"), .code("123456"), .note(note)])
    }

    @Test func aResetHasALinkOrAToken() throws {
        let content = Message.Content.passwordReset(token: "T", lifetimeSeconds: 3_600)
        let linked = try letter(content, "de", by: plan())
        #expect(linked.blocks.contains(.link(url: "https://h/r?token=T", label: "Neues Passwort wählen")))
        #expect(linked.plainText.contains("Das gilt 1 Stunde und nur einmal."))
        let bare = try letter(content, by: plan { $0.resetURL = nil })
        #expect(bare.blocks.contains(.code("T")) && bare.plainText.contains("This is valid for 1 hour and for one use."))
    }

    @Test func aNoticeNamesWhatIsKnownAndLinksTheWayBack() throws {
        func notice(_ kind: Notice.Kind, _ detail: String? = nil, address: String? = "192.0.2.7") throws -> Notice {
            Notice(
                id: UUID(high: 1, low: 2), kind: kind, recipient: .email(try EmailAddress("ada@example.org")), language: nil,
                detail: detail,
                address: address.flatMap { IPAddress(parsing: $0) }, at: WallTime(seconds: 1_800_000_000))
        }
        let plan = plan { $0.wayBackURL = "https://h/account/email/return" }
        let device = try letter(.notice(try notice(.newDevice, "<iPhone>"), wayBack: nil), by: plan)
        #expect(device.subject == "A new sign-in to Example")
        #expect(device.blocks[1] == .text("Device: <iPhone>\nAddress: 192.0.2.7\nTime: 2027-01-15 08:00 UTC"))
        #expect(device.html.contains("Device: &lt;iPhone&gt;<br>\r\nAddress: 192.0.2.7<br>\r\n"))
        let password = try letter(.notice(try notice(.passwordChanged, address: nil), wayBack: nil), "de", by: plan)
        #expect(password.blocks[1] == .text("Zeit: 2027-01-15 08:00 UTC"))
        let linked = try letter(.notice(try notice(.identityLinked, "google"), wayBack: nil), by: plan)
        #expect(linked.blocks[0] == .text("Your account can be signed in to with a new provider: Google."))
        #expect(linked.blocks[1] == .text("Address: 192.0.2.7\nTime: 2027-01-15 08:00 UTC"))
        let unlinked = try letter(.notice(try notice(.identityUnlinked, "apple"), wayBack: nil), "de", by: plan)
        #expect(
            unlinked.blocks[0]
                == .text("Bei deinem Konto kann man sich nicht mehr mit Apple anmelden, und alle anderen Sitzungen sind beendet."))
        let left = try letter(.notice(try notice(.emailLeft), wayBack: "T"), by: plan)
        #expect(
            left.blocks[2] == .text("If that was you, there is nothing to do. If not, take the account back until 2027-01-18 08:00 UTC:"))
        #expect(left.blocks[3] == .link(url: "https://h/account/email/return?token=T", label: "Take the account back"))
        let bare = try letter(.notice(try notice(.emailLeft), wayBack: "T"), by: self.plan())
        #expect(!bare.plainText.contains("take the account back") && !bare.plainText.contains("{"))
        let message = Message(to: .email(try EmailAddress("ada@example.org")), .notice(try notice(.emailLeft), wayBack: "T"))
        let outgoing = MessageTemplates(plan: plan).render(message, id: "id")
        #expect(outgoing.id == UUID(high: 1, low: 2).text && outgoing.notice == UUID(high: 1, low: 2))
        #expect(outgoing.secret == .link("https://h/account/email/return?token=T"))
    }

    /// The line begins with the domain and ends with the hash: each is where its system looks for it.
    @Test func anSMSEndsInALineByWhichPhonesFillItsCodeIn() throws {
        let text = "123456 is your code for Example. It is valid for 10 minutes. Do not share it."
        let cases: [(String?, String?, String)] = [
            (nil, nil, ""), ("example.org", nil, "\n\n@example.org #123456"), (nil, "FA+9qCX9VSu", "\n\nFA+9qCX9VSu"),
            ("example.org", "FA+9qCX9VSu", "\n\n@example.org #123456 FA+9qCX9VSu"),
        ]
        for (domain, hash, line) in cases {
            let plan = plan { ($0.smsDomain, $0.smsAppHash) = (domain, hash) }
            let body = try rendered(.code("123456", .sms, lifetimeSeconds: 600), by: plan, phone: true)
            #expect(body == .sms(text + line))
        }
    }

    @Test func aFolderReplacesTextsAndAddsLanguages() throws {
        let (set, findings) = try read([
            "fr/sign-up.txt": "Subject: Bienvenue chez {app}\r\n\r\nVotre code :\r\n\r\n{code}\r\n\r\nValable {minutes} minutes, {span}.\n",
            "fr/sign-up.html": "<style>p{color:red}</style><p>{app}: {code}</p>\n<p>{ x }</p>\n",
            "en/code.txt": "Subject: Code\n\nLine one {code}\nline two",
            "default/sign-up.txt": "Subject: Default\n\n{code}",
        ])
        #expect(findings.faults == [])
        #expect(set.languages == ["en", "de", "fr"])
        let plan = plan { ($0.templates, $0.signature) = (set, "A & B") }
        let french = try letter(.code("123456", .signUp, lifetimeSeconds: 600), "fr-CA", by: plan)
        #expect(french.subject == "Bienvenue chez A & B")
        #expect(french.blocks == [.text("Votre code :"), .code("123456"), .note("Valable 10 minutes, 10 min.")])
        #expect(french.html == "<style>p{color:red}</style><p>A &amp; B: 123456</p>\r\n<p>{ x }</p>\r\n")
        let english = try letter(.code("123456", .email, lifetimeSeconds: 600), "en", by: plan)
        #expect(english.plainText == "Line one 123456\r\nline two\r\n\r\n-- \r\nA & B\r\n")
        #expect(english.html.contains("Line one 123456<br>\r\nline two</p>"))
        // The rest of a language is that of `default`, and then English.
        let other = try letter(.code("123456", .signUp, lifetimeSeconds: 600), "it", by: plan)
        #expect(other.subject == "Default" && other.html.contains("<html lang=\"\">"))
        #expect(try letter(.code("123456", .email, lifetimeSeconds: 600), "fr", by: plan).subject == "Code")
    }

    @Test func whatIsMissingAndWrongInAFolderIsSaid() throws {
        let (_, missing) = try read(["fr/sign-up.txt": "Subject: S\n\n{code}", "fr/sing-up.txt": "x", "fr/code.html": "x"])
        #expect(missing.faults == [])
        #expect(missing.warnings.first?.hasPrefix("DIR/fr lacks code.txt, email-code.txt, ") == true)
        #expect(
            missing.warnings.dropFirst() == [
                "DIR/fr/code.html is not used: there is no code.txt", "DIR/fr/sing-up.txt is not used: no message has this name",
            ])
        let faults = [
            (
                "en/code.txt", "{code}",
                "DIR/en/code.txt has no subject, begin it with a line like Subject: Your code for {app}, and an empty line"
            ),
            ("en/code.txt", "Subject: S\n\nhello", "DIR/en/code.txt has no {code}, without which the message is of no use"),
            (
                "en/code.txt", "Subject: {code}\n\n{cod}",
                "DIR/en/code.txt has {cod}, which has no value, use {app}, {code}, {minutes}, {span}"
            ),
            ("en/sms.txt", "hello", "DIR/en/sms.txt has no {code}, without which the message is of no use"),
            ("English/sms.txt", "{code}", "DIR/English has no name of a language, use one like fr or pt-br, or default"),
        ]
        let html = try read(["en/code.txt": "Subject: S\n\n{code}", "en/code.html": "<p>hello</p>"]).1.faults
        #expect(html == ["DIR/en/code.html has no {code}, without which the message is of no use"])
        for (file, text, fault) in faults { #expect(try read([file: text]).1.faults == [fault]) }
        var gone = TemplateSet.Findings()
        #expect(TemplateSet.read("/nowhere/at/all", &gone) == .builtIn && gone.faults.first?.contains("/nowhere/at/all") == true)
    }
}
