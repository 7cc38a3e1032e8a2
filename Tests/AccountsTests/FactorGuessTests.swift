import Accounts
import Credentials
import Testing
import Wire

@Suite struct FactorGuessTests {
    private static let secret = [UInt8](repeating: 1, count: OneTimePassword.secretBytes)

    /// A session guesses in turns from a hundred addresses, for a day.
    @Test func tenThousandGuessesOfOneSessionGetNowhere() async throws {
        let office = try AccountsFixture()
        let thief = try await office.signUp("a@x").callerSession
        let owner = try await office.signIn("a@x", "password123").callerSession
        let context = AccountContext(
            store: office.store, clock: office.clock.accountClock, random: { [UInt8](repeating: 1, count: $0) }, notice: { _ in })
        let factors = Factors(
            context: context, sessions: office.sessions, limiter: office.limiter, secret: AccountsFixture.secret, issuer: "App")
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
