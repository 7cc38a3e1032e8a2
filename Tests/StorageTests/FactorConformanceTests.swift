import Accounts
import Credentials
import Testing
import Wire

/// Conformance of every store: the second factor, and the sessions that have proven it.
@Suite struct FactorConformanceTests {
    private static let digest = [UInt8](repeating: 7, count: 32)

    private func audit(_ seconds: Int64) -> AuditContext {
        var audit = at(seconds)
        audit.notices = [.factor]
        return audit
    }

    private func caller(_ store: any AccountStore, _ name: String = "a@x") async throws -> CallerSession {
        let opened = try await store.opened(name)
        return CallerSession(user: opened.account.id, session: try #require(opened.session?.id))
    }

    /// The factor of a new enrolment that `step` has ended.
    private func enrolled(
        _ store: any AccountStore, _ caller: CallerSession, step: Int64 = 100, at seconds: Int64 = 10
    ) async throws -> KeptFactor {
        let factor = KeptFactor(id: newID(), sealed: [1, 2, 3], createdAt: at(seconds).now)
        #expect(try await store.enrol(factor, by: caller, audit(seconds)).refusal == nil)
        #expect(try await store.prove(.code(step: step, of: factor.id, enrols: true), by: caller, audit(seconds)).refusal == nil)
        return try #require(try await store.factor(of: caller.user))
    }

    private func provenAt(_ store: any AccountStore, _ caller: CallerSession) async throws -> WallTime? {
        try await store.session(caller.session)?.session?.factorAt
    }

    @Test(arguments: Backend.allCases)
    func aCodeIsTakenOnceWhateverGatewayItComesTo(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let stores = [bench.store, try bench.another()]
        let caller = try await caller(stores[0])
        let factor = try await enrolled(stores[0], caller)
        #expect(factor.confirmedAt == at(10).now && factor.lastStep == 100)
        for step in 101...110 {
            let refusals = try await withThrowingTaskGroup(of: FactorRefusal?.self) { group in
                for number in 0..<6 {
                    group.addTask {
                        try await stores[number % 2].prove(.code(step: Int64(step), of: factor.id, enrols: false), by: caller, at(20))
                            .refusal
                    }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(refusals.count { $0 == nil } == 1 && refusals.count { $0 == .wrongCode } == 5)
        }
        #expect(try await stores[1].prove(.code(step: 110, of: factor.id, enrols: false), by: caller, at(30)).refusal == .wrongCode)
        #expect(try await stores[1].prove(.code(step: 120, of: newID(), enrols: false), by: caller, at(30)).refusal == .wrongCode)
    }

    @Test(arguments: Backend.allCases)
    func aProofReachesAllGatewaysAndLastsOverARestart(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await caller(store)
        var reader = try await ChangeReader(try bench.another())
        _ = try await enrolled(store, caller)
        #expect(try await reader.news().contains(.factor(ProvenSession(id: caller.session, at: at(10).now))))
        #expect(try await store.provenSessions(since: at(9).now) == [ProvenSession(id: caller.session, at: at(10).now)])
        #expect(try await store.provenSessions(since: at(10).now) == [])
        // A sign-in that proves two factors at once.
        var passkey = newSession()
        passkey.factorAt = at(20).now
        _ = try await store.openSession(passkey, of: caller.user, at(20))
        #expect(try await reader.news().contains(.factor(ProvenSession(id: passkey.id, at: at(20).now))))
        #expect(try await store.dropFactor(by: caller, audit(30)).refusal == nil)
        let gone = try await reader.news()
        for session in [caller.session, passkey.id] { #expect(gone.contains(.factor(ProvenSession(id: session, at: nil)))) }
        #expect(try await store.provenSessions(since: start).isEmpty)
    }

    @Test(arguments: Backend.allCases)
    func anEnrolmentIsReplacedUntilItsFirstCode(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await caller(store)
        #expect(try await store.prove(.backup(Self.digest), by: caller, at(1)).refusal == FactorRefusal.none)
        let first = KeptFactor(id: newID(), sealed: [1], createdAt: at(5).now)
        #expect(try await store.enrol(first, by: caller, at(5)).refusal == nil)
        #expect(try await store.prove(.code(step: 1, of: first.id, enrols: false), by: caller, at(6)).refusal == .wrongCode)
        #expect(try await store.setBackupCodes([Self.digest], by: caller, at(6)).refusal == FactorRefusal.none)
        let second = try await enrolled(store, caller)
        #expect(try await store.prove(.code(step: 200, of: first.id, enrols: true), by: caller, at(11)).refusal == .wrongCode)
        #expect(try await store.enrol(first, by: caller, at(12)).refusal == .exists)
        #expect(try await store.factor(of: caller.user) == second)
        let gone = CallerSession(user: caller.user, session: newID())
        #expect(try await store.enrol(first, by: gone, at(12)).refusal == .recency(.sessionEnded))
        let late = try await self.caller(store, "b@x")
        #expect(try await store.enrol(KeptFactor(id: second.id, sealed: [1], createdAt: at(0).now), by: late, at(0)).refusal == nil)
        #expect(try await store.prove(.code(step: 1, of: second.id, enrols: true), by: late, at(600)).refusal == .wrongCode)
    }

    @Test(arguments: Backend.allCases)
    func whoHasProvenItChangesItAndTheUserIsTold(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        var new = NewAccount(id: newID(), openedBy: .dlauth, email: try email("a@x"), passwordHash: "hash")
        new.isEmailConfirmed = true
        guard case .opened(let account, let session?) = try await store.open(new, session: newSession(), at(0)) else {
            throw Fault("taken")
        }
        let caller = CallerSession(user: account.id, session: session.id)
        _ = try await enrolled(store, caller)
        #expect(try await store.setBackupCodes([Self.digest], by: caller, audit(609)).refusal == nil)
        #expect(try await store.factor(of: caller.user)?.backupCodes == 1)
        for audit in [audit(610), audit(10_000)] {
            let refused = FactorRefusal.recency(.noFactor(maxAge: 600))
            #expect(try await store.setBackupCodes([], by: caller, audit).refusal == refused)
            #expect(try await store.dropFactor(by: caller, audit).refusal == refused)
        }
        #expect(try await store.prove(.backup(Self.digest), by: caller, audit(10_000)).refusal == nil)
        #expect(try await store.prove(.backup(Self.digest), by: caller, audit(10_000)).refusal == .wrongCode)
        #expect(try await provenAt(store, caller) == at(10_000).now)
        // A reset by mail is the first factor alone.
        _ = try await store.putResetToken(PendingReset(digest: Self.digest, email: try email("a@x"), expiresAt: at(20_000).now))
        _ = try await store.resetPassword(digest: Self.digest, hash: "new", session: newSession(), at(10_001))
        #expect(try await store.factor(of: caller.user) != nil)
        #expect(try await store.dropFactor(of: caller.user, audit(10_002)) == true)
        #expect(try await store.dropFactor(of: caller.user, audit(10_003)) == false)
        #expect(try await store.dropFactor(of: newID(), audit(10_003)) == nil)
        #expect(try await store.claimNotices(at: at(10_003).now, limit: 9).map(\.kind) == [.factorAdded, .factorRemoved])
        let kinds = try await store.auditEvents(of: caller.user, before: nil, limit: 20).map(\.kind)
        #expect([.factorAdded, .backupCodesMade, .backupCodeUsed, .factorRemoved].allSatisfy(kinds.contains))
    }

    /// Who takes an account over keeps nothing of the one before.
    @Test(arguments: Backend.allCases)
    func aTakeOverAndADeletionRemoveIt(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await caller(store)
        _ = try await enrolled(store, caller)
        let recipient = Recipient.email(try email("a@x"))
        _ = try await store.putCode(PendingCode(purpose: .email, recipient: recipient.key, digest: Self.digest, expiresAt: at(600).now))
        let redemption = CodeRedemption(
            recipient: recipient, guess: CodeGuess(triedAs: .email) { _ in Self.digest }, proof: .signIn(caller: nil), callerSession: nil,
            session: newSession())
        #expect(try await store.redeem(redemption, at(20)).signIn?.account.id == caller.user)
        #expect(try await store.factor(of: caller.user) == nil)
        let other = try await self.caller(store, "b@x")
        _ = try await enrolled(store, other)
        _ = try await store.delete(other.user, at(30))
        #expect(try await store.factor(of: other.user) == nil)
    }
}
