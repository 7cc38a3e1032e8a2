import Accounts
import Contracts
import Credentials
import Stories
import Testing

/// The page behind the link to an address that an account had before.
@Suite struct WayBackPageTests {
    private func ask(_ world: ContractWorld, _ method: String, _ token: String, _ language: String = "en") async throws -> StoryAnswer {
        try await world.ask(method, "/account/email/return?token=\(token)", ["Accept-Language: \(language)"], [])
    }

    private func text(_ answer: StoryAnswer) -> String { String(decoding: answer.body, as: UTF8.self) }

    @Test func onlyItsButtonTakesTheAccountBack() async throws {
        let world = try ContractWorld(notices: [.email])
        let services = world.services
        let caller = Caller(address: nil, device: nil)
        let (former, new) = (try EmailAddress("ada@example.org"), try EmailAddress("eve@example.org"))
        _ = try await services.passwords.signUp(
            Registration(email: former, password: try Password("password123")), rules: .length, contract: .dlauth, caller: caller)
        try await services.codes.send(.signUp, to: .email(former), .holders, caller: caller)
        guard case .code(let first)? = try await world.message(to: "ada@example.org") else { return #expect(Bool(false)) }
        let signed = try await services.codes.verify(
            first, .email, of: .email(former), for: .signIn(caller: nil), contract: .dlauth, session: nil, caller: caller)
        let session = CallerSession(user: signed.account.id, session: signed.grant.session.id)
        try await services.codes.send(.emailChange, to: .email(new), .anyone, caller: caller)
        guard case .code(let second)? = try await world.message(to: "eve@example.org") else { return #expect(Bool(false)) }
        _ = try await services.codes.verify(
            second, .emailChange, of: .email(new), for: .change(caller: session.user), contract: .dlauth, session: session, caller: caller)
        try await services.life?.notices?.sendDue()
        let token = try #require(world.wayBack(to: "ada@example.org"))

        for _ in 0..<2 {
            let page = try await ask(world, "GET", token)
            #expect(page.status == 200 && text(page).contains("<form method=\"post\"><button>Take the account back</button></form>"))
            #expect(!text(page).contains("<script") && !text(page).contains(token))
            let policy = page.fields.first { $0.name == "Content-Security-Policy" }?.value ?? ""
            #expect(policy.contains("default-src 'none'") && policy.contains("form-action 'self'"))
        }
        #expect(text(try await ask(world, "GET", token, "de-AT")).contains("<html lang=\"de\">"))
        let unchanged = try await services.accounts.account(session.user)
        #expect(unchanged?.email == new, "showing the page changes nothing")
        #expect(try await ask(world, "GET", "x").status == 404)
        #expect(try await ask(world, "POST", "x").status == 404)

        let done = try await ask(world, "POST", token)
        #expect(done.status == 200 && text(done).contains("Your account has your address again") && !text(done).contains("<form"))
        #expect(try await services.accounts.account(session.user)?.email == former)
        guard case .reset? = try await world.message(to: "ada@example.org") else { return #expect(Bool(false), "no reset") }
        #expect(try await ask(world, "GET", token).status == 404)
        #expect(try await ask(world, "POST", token).status == 404)
    }
}
