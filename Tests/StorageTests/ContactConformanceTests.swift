import Accounts
import Testing
import Wire

/// What every store does with codes and reset tokens.
@Suite struct ContactConformanceTests {
    private let right = [UInt8](repeating: 1, count: 32)
    private let wrong = [UInt8](repeating: 2, count: 32)

    private func put(
        _ store: any AccountStore, _ recipient: Recipient, _ purpose: CodePurpose = .email, digest: [UInt8]? = nil
    ) async throws -> Account? {
        try await store.putCode(
            PendingCode(purpose: purpose, recipient: recipient.key, digest: digest ?? right, expiresAt: at(600).now))
    }

    private func redeem(
        _ store: any AccountStore, _ recipient: Recipient, _ proof: ContactProof, _ purpose: CodePurpose = .email,
        digest: [UInt8]? = nil, contract: ContractID = .dlauth, callerSession: UUID? = nil, at seconds: Int64 = 10
    ) async throws -> Redemption {
        let redemption = CodeRedemption(
            purpose: purpose, recipient: recipient, digest: digest ?? right, proof: proof, callerSession: callerSession,
            session: newSession(contract))
        return try await store.redeem(redemption, at(seconds))
    }

    private func mail(_ text: String) throws -> Recipient { .email(try email(text)) }

    @Test(arguments: Backend.allCases)
    func aCodeWorksOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let user = try await store.opened("a@x").account.id
        let recipient = try mail("A@x")
        #expect(try await put(store, recipient)?.id == user)
        let proven = try await redeem(store, recipient, .completeSignUp(.dlauth)).signIn
        #expect(proven?.account.emailConfirmedAt == at(10).now)
        #expect(proven?.account.hasPassword == true)
        #expect(try await store.account(user) == proven?.account)
        #expect(try await store.session(proven?.session?.id ?? newID())?.account.id == user)
        #expect(try await redeem(store, recipient, .completeSignUp(.dlauth)) == .wrongCode)
        #expect(try await put(store, try mail("nobody@x")) == nil)
    }

    @Test(arguments: Backend.allCases)
    func ofManyWhoTryTheRightCodeAtOnceOneSucceeds(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        let outcomes = try await withThrowingTaskGroup(of: Redemption.self) { group in
            for _ in 0..<20 { group.addTask { try await redeem(store, recipient, .signIn) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.count { $0.signIn != nil } == 1)
        #expect(outcomes.count { $0 == .wrongCode } == 19)
    }

    @Test(arguments: Backend.allCases)
    func fiveWrongTriesKillACodeAndANewOneLives(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        for _ in 0..<4 { #expect(try await redeem(store, recipient, .signIn, digest: wrong) == .wrongCode) }
        _ = try await put(store, recipient)
        for _ in 0..<5 { #expect(try await redeem(store, recipient, .signIn, digest: wrong) == .wrongCode) }
        #expect(try await redeem(store, recipient, .signIn) == .wrongCode)
        _ = try await put(store, recipient, digest: wrong)
        #expect(try await redeem(store, recipient, .signIn) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn, digest: wrong).signIn != nil)
    }

    @Test(arguments: Backend.allCases)
    func aCodeCountsForItsPurposeAndTime(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        _ = try await store.opened("a@x")
        let recipient = try mail("a@x")
        _ = try await put(store, recipient)
        _ = try await put(store, recipient, .recovery, digest: wrong)
        #expect(try await redeem(store, recipient, .signIn, .recovery) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn, at: 600) == .wrongCode)
        #expect(try await redeem(store, recipient, .signIn, .recovery, digest: wrong, at: 599).signIn != nil)
        _ = try await put(store, recipient)
        try await store.sweep(now: at(599).now)
        #expect(try await redeem(store, recipient, .signIn, at: 599).signIn != nil)
    }

    @Test(arguments: Backend.allCases)
    func aProofByAnotherContractTakesTheAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let squatter = try await store.opened("a@x", contract: .password)
        let recipient = try mail("a@x")
        _ = try await put(store, recipient, .link)
        let owner = try await redeem(store, recipient, .signIn, .link, contract: .anonymous).signIn
        #expect(owner?.account.id == squatter.account.id)
        #expect(owner?.account.hasPassword == false)
        #expect(owner?.ended.map(\.id) == squatter.sessionIDs)
        #expect(try await store.account(squatter.account.id) == owner?.account)
        #expect(try await store.credential(for: .email(try email("a@x"))) == nil)
        #expect(try await store.auditEvents(of: squatter.account.id, limit: 9).map(\.kind) == [.signedIn, .accountTaken, .accountOpened])
    }

    @Test(arguments: Backend.allCases)
    func anEmailJoinsTheCallersAccountAndSession(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened(nil, hash: nil, contract: .anonymous)
        let recipient = try mail("a@x")
        let proof = ContactProof.link(caller: caller.account.id)
        #expect(try await put(store, recipient, .link) == nil)
        let joined = try await redeem(
            store, recipient, proof, .link, contract: .anonymous, callerSession: caller.session?.id).signIn
        #expect(joined?.account.id == caller.account.id)
        #expect(joined?.account.email == (try email("a@x")))
        #expect(joined?.session == caller.session)
        #expect(try await store.account(caller.account.id) == joined?.account)
        _ = try await put(store, recipient, .link)
        let other = try await redeem(store, recipient, proof, .link, contract: .dlauth, callerSession: caller.session?.id).signIn
        #expect(other?.session?.contract == .dlauth)
        _ = try await put(store, recipient, .link)
        #expect(try await redeem(store, recipient, proof, .link, callerSession: newID()) == .refused(.callerGone))
    }

    @Test(arguments: Backend.allCases)
    func anAddressMovesToWhoProvesIt(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let mover = try await store.opened("old@x")
        let squatter = try await store.opened("new@x")
        let recipient = try mail("new@x")
        let proof = ContactProof.change(caller: mover.account.id)
        _ = try await put(store, recipient, .emailChange)
        let moved = try await redeem(store, recipient, proof, .emailChange, callerSession: mover.session?.id).signIn
        #expect(moved?.account.email == (try email("new@x")))
        #expect(moved?.ended.map(\.id) == squatter.sessionIDs)
        let released = try await store.account(squatter.account.id)
        #expect(released?.email == nil && released?.hasPassword == false)
        let third = try await store.opened("third@x")
        _ = try await put(store, recipient, .emailChange)
        let taken = try await redeem(
            store, recipient, .change(caller: third.account.id), .emailChange, callerSession: third.session?.id)
        #expect(taken == .refused(.taken))
    }

    @Test(arguments: Backend.allCases)
    func aPhoneJoinsAnAccount(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let caller = try await store.opened("a@x")
        let phone = Recipient.phone(try PhoneNumber("+491512345678"))
        _ = try await put(store, phone, .phoneChange)
        let joined = try await redeem(
            store, phone, .change(caller: caller.account.id), .phoneChange, callerSession: caller.session?.id).signIn
        #expect(joined?.account.phoneConfirmedAt == at(10).now)
        #expect(joined?.account.emailConfirmedAt == nil)
        #expect(try await store.account(caller.account.id) == joined?.account)
        #expect(try await put(store, phone, .sms)?.id == caller.account.id)
        #expect(try await redeem(store, phone, .signIn, .sms).signIn?.account == joined?.account)
        let nobody = Recipient.phone(try PhoneNumber("+491510000000"))
        _ = try await put(store, nobody, .sms)
        #expect(try await redeem(store, nobody, .signIn, .sms) == .refused(.noAccount))
    }

    @Test(arguments: Backend.allCases)
    func aResetTokenWorksOnce(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let first = try await store.opened("a@x", hash: "old")
        let token = PendingReset(digest: right, email: try email("A@x"), expiresAt: at(600).now)
        let second = PendingReset(digest: wrong, email: try email("a@x"), expiresAt: at(600).now)
        #expect(try await store.putResetToken(token)?.id == first.account.id)
        _ = try await store.putResetToken(second)
        #expect(try await store.holdsResetToken(digest: right, now: at(599).now))
        #expect(try await !store.holdsResetToken(digest: right, now: at(600).now))
        #expect(try await store.resetPassword(digest: right, hash: "new", session: newSession(), at(600)) == nil)
        let session = newSession()
        let done = try await store.resetPassword(digest: right, hash: "new", session: session, at(10))
        #expect(done?.session?.id == session.id)
        #expect(done?.ended.map(\.id) == first.sessionIDs)
        #expect(done?.account.emailConfirmedAt == at(10).now)
        #expect(try await store.account(first.account.id) == done?.account)
        #expect(try await store.credential(for: .email(try email("a@x")))?.hash == "new")
        for digest in [right, wrong] {
            #expect(try await store.resetPassword(digest: digest, hash: "x", session: newSession(), at(11)) == nil)
        }
        let nobody = PendingReset(digest: right, email: try email("nobody@x"), expiresAt: at(600).now)
        #expect(try await store.putResetToken(nobody) == nil)
        #expect(try await store.resetPassword(digest: right, hash: "x", session: newSession(), at(11)) == nil)
    }
}
