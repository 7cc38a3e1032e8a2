import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: tiers of outside issuers' subjects, and what the change log says of them.
@Suite struct SubjectTierConformanceTests {
    private func key(_ subject: String, of issuer: String = "django") -> IdentityKey {
        IdentityKey(IdentitySource(stored: issuer), stored: subject)
    }

    private func line(_ text: String) throws -> ImportedAccount {
        let bytes = Array(text.utf8)
        return try ImportedAccount(line: bytes.rawBytes, ImportRules(tiers: ["free", "premium"], issuers: ["django"], idIssuer: "django"))
    }

    @Test(arguments: Backend.allCases) func theFirstTierOfASubjectMakesItsAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        #expect(try await store.entitlement(of: key("42")) == nil)
        let id = newID()
        let made = try await store.setTier("premium", until: at(9).now, of: key("42"), newUser: id, at(1))
        #expect(made.id == id && made.openedBy == nil && made.email == nil && !made.hasPassword && made.createdAt == at(1).now)
        #expect(made.entitlement == Entitlement(tier: "premium", until: at(9).now, version: 1))
        #expect(try await store.account(of: key("42")) == made)
        #expect(try await store.entitlement(of: key("42")) == made.entitlement)
        let again = try await store.setTier(nil, until: nil, of: key("42"), newUser: newID(), at(2))
        #expect(again.id == id && again.entitlement == Entitlement(tier: nil, until: nil, version: 2))
        #expect(try await store.entitlement(of: key("42")) == again.entitlement)
        #expect(try await store.auditEvents(of: id, before: nil, limit: 9).map(\.kind).contains(.identityLinked))
        // By the id, too.
        let byID = try await store.setTier("premium", until: nil, of: id, at(3))
        #expect(try await store.entitlement(of: key("42")) == byID)
    }

    /// None of these has the tier of another, whatever databases and strings take for equal.
    @Test(arguments: Backend.allCases) func subjectsAreComparedByteByByte(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let own = try await store.opened("ada@x").account.id
        let others = [
            key("42", of: "rails"), key("042"), key("4"), key("42:"), key(":42"), key("42%"), key("4_"), key(own.text), key("ada@x"),
            key("Ada"), key("e\u{301}"), key("a/b%20c d"), key("'; DROP TABLE accounts; --"), key("\u{1F600}"),
        ]
        for subject in ["42", "ada", "\u{E9}"] {
            _ = try await store.setTier("premium", until: nil, of: key(subject), newUser: newID(), at(1))
        }
        for other in others { #expect(try await store.entitlement(of: other) == nil, "\(other)") }
        for (number, other) in others.enumerated() {
            _ = try await store.setTier("t\(number)", until: nil, of: other, newUser: newID(), at(1))
        }
        for (number, other) in others.enumerated() { #expect(try await store.entitlement(of: other)?.tier == "t\(number)", "\(other)") }
        #expect(try await store.entitlement(of: key("42"))?.tier == "premium")
        #expect(try await store.standing(of: own)?.entitlement.tier == nil)
    }

    @Test(arguments: Backend.allCases) func allThatChangesTheTierOfASubjectIsLogged(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var reader = try await ChangeReader(store)
        func subjects() async throws -> Set<IdentityKey> {
            Set(try await reader.news().compactMap { if case .identity(let key) = $0 { key } else { nil } })
        }
        let made = try await store.setTier("premium", until: nil, of: key("1"), newUser: newID(), at(1))
        #expect(try await subjects() == [key("1")])
        _ = try await store.setTier(nil, until: nil, of: key("1"), newUser: newID(), at(1))
        #expect(try await subjects() == [key("1")])
        _ = try await store.setTier("premium", until: nil, of: made.id, at(1))
        #expect(try await subjects() == [key("1")], "by the account's id")
        _ = try await store.delete(made.id, at(1))
        #expect(try await subjects() == [key("1")])
        #expect(try await store.entitlement(of: key("1")) == nil)
        // An import.
        _ = try await store.add(
            [try line(#"{"id":"7","tier":"premium","identities":[{"provider":"apple","subject":"s"}]}"#), try line(#"{"email":"a@x"}"#)],
            newIDs: [newID(), newID()], at(2))
        #expect(try await subjects() == [key("7")])
        let imported = try #require(try await store.account(of: key("7")))
        _ = try await store.setTier(nil, until: nil, of: imported.id, at(3))
        #expect(try await subjects() == [key("7")])
        try await store.forget(key("of nobody"))
        #expect(try await subjects() == [key("of nobody")])
        _ = try await store.signIn(
            IdentityProof(provider: .apple, subject: "t", verifiedEmail: nil, name: nil, nameRule: .first), newUser: newID(),
            session: newSession(.provider), at(4))
        #expect(try await subjects() == [], "providers' subjects are nobody's tiers")
    }

    /// Two gateways set the first tier of one subject at once: one account is made.
    @Test(arguments: Backend.allCases) func twoAtOnceMakeOneAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, other) = (bench.store, try bench.another())
        for number in 0..<20 {
            let subject = key("\(number)")
            async let first = store.setTier("a", until: nil, of: subject, newUser: newID(), at(1))
            async let second = other.setTier("b", until: nil, of: subject, newUser: newID(), at(1))
            let ids = Set([try await first.id, try await second.id])
            #expect(ids.count == 1)
            #expect(try await store.entitlement(of: subject)?.version == 2)
        }
        #expect(try await store.accounts(after: nil, limit: 100).count == 20)
        await other.close()
    }
}
