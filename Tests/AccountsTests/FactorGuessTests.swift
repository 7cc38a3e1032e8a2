import Accounts
import Credentials
import Testing
import Wire

@Suite struct FactorGuessTests {
    private static let secret = [UInt8](repeating: 1, count: OneTimePassword.secretBytes)

    /// The factors of an office, whose secrets are `secret`.
    private func factors(_ office: AccountsFixture) -> Factors {
        let context = AccountContext(
            store: office.store, clock: office.clock.accountClock,
            random: { $0 == Self.secret.count ? Self.secret : SecureRandom.bytes($0) }, notice: { _ in })
        return Factors(
            context: context, sessions: office.sessions, limiter: office.limiter, secret: AccountsFixture.secret, issuer: "App")
    }

    /// A thief of the password fills the account's allowance by three sessions.
    @Test func wrongCodesOfNewSessionsDoNotLockTheOwnerOut() async throws {
        let office = try AccountsFixture()
        let owner = try await office.signUp("a@x").callerSession
        let factors = factors(office)
        func code() -> String { OneTimePassword.code(of: Self.secret, step: office.clock.now.seconds / 30) }
        _ = try await factors.enrol(owner, by: office.caller)
        try await factors.prove(code(), enrols: true, owner, by: office.caller)
        let backups = try await factors.makeBackupCodes(owner, by: office.caller)
        office.clock.advance(seconds: 60)
        let wrong = [-1, 0, 1].contains { OneTimePassword.code(of: Self.secret, step: office.clock.now.seconds / 30 + $0) == "000000" }
        for _ in 0..<3 {
            let thief = try await office.signIn("a@x", "password123").callerSession
            for _ in 0..<5 {
                await #expect(throws: AccountError<FactorRefusal>.refused(.wrongCode)) {
                    try await factors.prove(wrong ? "111111" : "000000", enrols: false, thief, by: office.caller)
                }
            }
        }
        let new = try await office.signIn("a@x", "password123").callerSession
        func refusal(_ code: String, _ caller: CallerSession) async -> AccountError<FactorRefusal>? {
            do throws(AccountError<FactorRefusal>) {
                try await factors.prove(code, enrols: false, caller, by: office.caller)
                return nil
            } catch {
                return error
            }
        }
        guard case .failed(.tooManyAttempts) = await refusal(code(), new) else {
            Issue.record("a session that has proven nothing guesses on")
            return
        }
        #expect(await refusal(backups[0], new) == nil, "a backup code is judged")
        #expect(await refusal(code(), owner) == nil, "a session that has proven the factor has guesses of its own")
        for _ in 0..<5 { #expect(await refusal("AAAAAAAA-AAAAAAAA", new) == .refused(.wrongCode)) }
        guard case .failed(.tooManyAttempts) = await refusal(backups[1], new) else {
            Issue.record("a session guesses backup codes without end")
            return
        }
    }

    /// A session guesses in turns from a hundred addresses, for a day.
    @Test func tenThousandGuessesOfOneSessionGetNowhere() async throws {
        let office = try AccountsFixture()
        let thief = try await office.signUp("a@x").callerSession
        let owner = try await office.signIn("a@x", "password123").callerSession
        let factors = factors(office)
        func code(_ steps: Int64 = 0) -> String { OneTimePassword.code(of: Self.secret, step: office.clock.now.seconds / 30 + steps) }
        _ = try await factors.enrol(owner, by: office.caller)
        try await factors.prove(code(), enrols: true, owner, by: office.caller)
        var (judged, right) = (0, 0)
        for number in 0..<10_000 {
            let client = Caller(address: IPAddress(v4: 0xC633_6400 + UInt32(number % 100)), device: nil)
            let guess = [-1, 0, 1].contains { code($0) == "000000" } ? "111111" : "000000"
            let refused = await fault { try await factors.prove(guess, enrols: false, thief, by: client) }
            if refused == FactorRefusal.wrongCode { judged += 1 } else if refused == nil { right += 1 }
            office.clock.advance(seconds: 8)
        }
        #expect(right == 0 && judged < 240, "\(judged) were judged: five at once, and ten an hour")
        // The owner's session has guesses of its own.
        try await factors.prove(code(), enrols: false, owner, by: office.caller)
    }
}
