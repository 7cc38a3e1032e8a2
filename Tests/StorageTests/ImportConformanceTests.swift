import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: imported accounts.
@Suite struct ImportConformanceTests {
    private let hash = "pbkdf2_sha256$1$x$yb9iKunqNijXRQKUvO6LoyiwVgfOzKs1+3gaWy8rzxc="

    private func line(_ text: String) throws -> ImportedAccount {
        let bytes = Array(text.utf8)
        return try ImportedAccount(line: bytes.rawBytes, ImportRules(tiers: ["free", "premium"], issuers: ["django"], idIssuer: "django"))
    }

    private func add(_ store: any AccountStore, _ lines: [ImportedAccount], at seconds: Int64 = 100) async throws -> [ImportVerdict] {
        try await store.add(lines, newIDs: lines.map { _ in newID() }, at(seconds))
    }

    @Test(arguments: Backend.allCases) func anImportedAccountHasAllThatItsLineSays(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let id = newID()
        let ada = try line(
            #"{"id":"\#(id.text)","email":"a@x","email_verified":true,"username":"ada","password_hash":"\#(hash)","tier":"premium","tier_until":"2030-01-01T00:00:00Z","created_at":"1970-01-01T00:00:10Z","identities":[{"provider":"django","subject":"7"},{"provider":"apple","subject":"s"}]}"#
        )
        #expect(try await add(store, [ada]) == [.create])
        let account = try #require(try await store.account(id))
        #expect(account == ada.account(newID: id, now: at(100).now))
        #expect(account.createdAt == WallTime(seconds: 10) && account.openedBy == nil)
        #expect(
            try await store.credential(for: .username(Username(stored: "ada")))
                == Credential(user: id, hash: hash, isEmailConfirmed: true, email: try email("a@x")))
        #expect(
            try await store.identities(of: id).map(\.key) == [
                IdentityKey(IdentitySource(.apple), stored: "s"), IdentityKey(IdentitySource(stored: "django"), stored: "7"),
            ])
        #expect(try await store.account(of: IdentityKey(IdentitySource(stored: "django"), stored: "7")) == account)
        #expect(try await store.account(of: IdentityKey(IdentitySource(.apple), stored: "s")) != nil)
        #expect(try await add(store, [ada], at: 200) == [.keep(id)])
        #expect(try await store.account(id) == account)
    }

    @Test(arguments: Backend.allCases) func linesOfOneBatchMeetEachOther(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try line(#"{"email":"a@x"}"#)
        let verdicts = try await add(
            store, [first, first, try line(#"{"id":"\#(newID().text)","email":"A@x"}"#), try line(#"{"id":"7","email":"b@x"}"#)])
        let user = try #require(try await store.account(email: try email("a@x"))?.id)
        #expect(verdicts == [.create, .keep(user), .refuse(.emailTaken(by: user)), .create])
    }

    /// An account that was made for an identity alone gets the rest of the line, and keeps its id and tier.
    @Test(arguments: Backend.allCases) func anAccountMadeForAnIdentityIsCompleted(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let bare = try line(#"{"id":"7","tier":"premium"}"#)
        #expect(try await add(store, [bare, bare]).first == .create)
        let user = try #require(try await store.account(of: bare.identities[0])?.id)
        let whole = try line(#"{"id":"7","email":"a@x","password_hash":"\#(hash)"}"#)
        #expect(try await add(store, [whole], at: 200) == [.complete(user)])
        let account = try #require(try await store.account(user))
        #expect(account.email == whole.email && account.hasPassword && account.entitlement.tier == "premium")
        #expect(try await add(store, [whole], at: 300) == [.keep(user)])
    }

    /// Someone who signs in with Apple and was given a tier before the import finds one account.
    @Test(arguments: Backend.allCases) func anAccountThatIsCompletedGetsTheLinesOtherIdentities(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let whole = try line(#"{"id":"7","email":"a@x","identities":[{"provider":"apple","subject":"s"}]}"#)
        let bare = try #require(whole.identities.first { $0.subject == "7" })
        let user = try await store.setTier("premium", until: nil, of: bare, newUser: newID(), at(1)).id
        #expect(try await add(store, [whole], at: 200) == [.complete(user)])
        let apple = IdentityKey(IdentitySource(.apple), stored: "s")
        #expect(try await store.account(of: apple)?.id == user)
        #expect(try await add(store, [whole], at: 300) == [.keep(user)])
        // Also where the identity is all that the line brings.
        let other = try line(#"{"id":"8","identities":[{"provider":"apple","subject":"t"}]}"#)
        let second = try await store.setTier("premium", until: nil, of: IdentityKey(bare.source, stored: "8"), newUser: newID(), at(1)).id
        #expect(try await add(store, [other], at: 200) == [.complete(second)])
        #expect(try await store.identities(of: second).count == 2)
        #expect(try await add(store, [other], at: 300) == [.keep(second)])
    }
}
