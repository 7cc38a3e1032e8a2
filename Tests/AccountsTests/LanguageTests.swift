import Credentials
import MemoryStore
import Storage
import Testing

@testable import Accounts

/// The languages of clients, and those that accounts keep for their mails.
@Suite struct LanguageTests {
    @Test func thePreferredLanguagesComeFirst() {
        let cases: [(String, [String])] = [
            ("de", ["de"]), ("de-AT, en;q=0.7 , *;q=0.1", ["de-at", "en"]), ("en;q=0.5,fr,de;q=0.9", ["fr", "de", "en"]),
            ("en;q=0,fr;q=1.000,de;q=2", ["fr"]), ("", []), ("<script>, e, en_US, en;x=1", []), ("fr;q=0.123,it;q=0.2", ["it", "fr"]),
            (Array(repeating: "x-1", count: 20).joined(separator: ","), Array(repeating: "x-1", count: 16)),
        ]
        for (header, tags) in cases { #expect(PreferredLanguages(header).tags == tags, "\(header)") }
    }

    @Test func theBestOneIsFoundByLookUp() {
        let cases = [
            ("de-at", "de"), ("fr,en", "en"), ("zh-Hant-TW,de", "zh-hant"), ("fr", nil), ("pt", nil), ("de-1-x", "de"),
        ]
        for (header, best) in cases { #expect(PreferredLanguages(header).best(of: ["de", "en", "zh-hant", "pt-br"]) == best, "\(header)") }
    }

    /// A client without one changes nothing, and one that nothing is written in neither.
    @Test func anAccountKeepsTheLanguageOfItsLastSignIn() async throws {
        let office = try AccountsFixture()
        let user = try await office.signUp("a@x").account.id
        #expect(try await office.store.account(user)?.language == nil)
        for (languages, kept) in [("de-CH,en;q=0.5", "de"), (nil, "de"), ("fr", "de"), ("en", "en")] as [(String?, String)] {
            var caller = office.caller
            caller.languages = languages
            _ = try await office.passwords.signIn(
                .email(try EmailAddress("a@x")), try Password("password123"), contract: .dlauth, caller: caller)
            #expect(try await office.store.account(user)?.language == kept)
        }
        // Mails are in the language that their client names, and otherwise in that of the account.
        for (languages, sent) in [("de", "de"), (nil, "en")] as [(String?, String)] {
            var caller = office.caller
            caller.languages = languages
            try await office.codes.send(.email, to: .email(try EmailAddress("a@x")), .holders, caller: caller)
            try await office.reset.forgot(try EmailAddress("a@x"), caller: caller)
            #expect(office.recorder.sent.suffix(2).map(\.languages) == [sent, sent])
        }
    }
}
