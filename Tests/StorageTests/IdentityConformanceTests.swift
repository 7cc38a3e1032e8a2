import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: identities of providers.
@Suite struct IdentityConformanceTests {
    private func signIn(_ store: any AccountStore, _ proof: IdentityProof, at seconds: Int64 = 1) async throws -> SignIn {
        try await store.signIn(proof, newUser: newID(), session: newSession(.provider), at(seconds))
    }

    @Test(arguments: Backend.allCases)
    func anIdentityOpensOneAccountAndFindsItAgain(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let address = try email("A@x")
        let first = try await signIn(store, identity(subject: "1", email: address))
        #expect(first.isNew)
        #expect(first.account.email == address)
        #expect(first.account.emailConfirmedAt == at(1).now)
        #expect(first.account.openedBy == .provider)
        #expect(first.session?.user == first.account.id)
        #expect(try await store.account(first.account.id) == first.account)
        let again = try await signIn(store, identity(subject: "1", email: nil), at: 2)
        #expect(!again.isNew)
        #expect(again.account == first.account)
        #expect(again.session?.id != first.session?.id)
        #expect(try await signIn(store, identity(.apple, subject: "1", email: nil)).account.id != first.account.id)
    }

    @Test(arguments: Backend.allCases)
    func identitiesOfAnAccountAreListed(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await signIn(store, identity(subject: "1", email: try email("a@x")))
        _ = try await signIn(store, identity(.apple, subject: "2", email: try email("a@x")), at: 3)
        _ = try await signIn(store, identity(subject: "3", email: nil), at: 4)
        #expect(
            try await store.identities(of: first.account.id) == [
                LinkedIdentity(key: IdentityKey(IdentitySource(.apple), stored: "2"), linkedAt: at(3).now),
                LinkedIdentity(key: IdentityKey(IdentitySource(.google), stored: "1"), linkedAt: at(1).now),
            ])
        #expect(try await store.identities(of: newID()).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func ofManyAtOnceOneOpensTheAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let address = try email("a@x")
        let found = try await withThrowingTaskGroup(of: SignIn.self) { group in
            for number in 0..<20 {
                let proof = identity(number % 2 == 0 ? .apple : .google, subject: "1", email: address)
                group.addTask { try await signIn(store, proof) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(found.map(\.account.id)).count == 1)
        #expect(found.count(where: \.isNew) == 1)
        #expect(try await store.accounts(after: nil, limit: 10).count == 1)
    }

    @Test(arguments: Backend.allCases)
    func aProvenEmailLinksAndAnUnprovenOneIsTakenOver(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let proven = try await signIn(store, identity(subject: "1", email: try email("a@x")))
        let linked = try await signIn(store, identity(.apple, subject: "2", email: try email("A@X")))
        #expect(linked.account.id == proven.account.id)
        #expect(linked.ended.isEmpty)

        let squatter = try await store.opened("b@x", hash: "squatter's")
        _ = try await store.grant(ActorName(type: "team", id: "1"), to: squatter.account.id, at(0))
        let owner = try await signIn(store, identity(subject: "3", email: try email("b@x")), at: 5)
        #expect(owner.account.id == squatter.account.id)
        #expect(!owner.isNew)
        #expect(!owner.account.hasPassword)
        #expect(owner.account.emailConfirmedAt == at(5).now)
        #expect(owner.ended.map(\.id) == squatter.sessionIDs)
        #expect(try await store.account(owner.account.id) == owner.account)
        #expect(try await store.credential(for: .email(try email("b@x"))) == nil)
        #expect(try await store.grants(of: owner.account.id).isEmpty)
        let proof = PasswordProof(hash: "squatter's")
        #expect(try await store.signIn(squatter.account.id, proof: proof, session: newSession(), at(6)) == nil)
        #expect(try await store.refresh(squatter.session, 1, at: 6) == .refused(.noSession))
    }

    @Test(arguments: Backend.allCases)
    func anAccountWithoutEmailGetsTheOneThatIsFree(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("taken@x")
        let first = try await signIn(store, identity(subject: "1", email: nil))
        #expect(first.account.email == nil)
        let still = try await signIn(store, identity(subject: "1", email: try email("taken@x")), at: 2)
        #expect(still.account.id == first.account.id)
        #expect(still.account.email == nil)
        let now = try await signIn(store, identity(subject: "1", email: try email("free@x")), at: 3)
        #expect(now.account.email == (try email("free@x")))
        #expect(now.account.emailConfirmedAt == at(3).now)
        #expect(try await store.account(first.account.id) == now.account)
    }

    @Test(arguments: Backend.allCases)
    func aNameIsStoredByItsRule(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let ada = try PersonName(given: "Ada", family: nil)
        let grace = try PersonName(given: "Grace", family: "Hopper")
        _ = try await signIn(store, identity(subject: "1", email: nil, name: ada), at: 0)
        let second = try await signIn(store, identity(subject: "1", email: nil, name: grace), at: 1)
        #expect(second.account.name == ada)
        let fresh = try await signIn(store, identity(subject: "1", email: nil, name: grace, rule: .firstOrFresh), at: 2)
        #expect(fresh.account.name == grace)
        #expect(try await store.account(fresh.account.id)?.name == grace)
        #expect(fresh.account.updatedAt == at(2).now)
    }
}
