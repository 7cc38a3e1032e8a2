import Accounts
import Credentials
import Synchronization
import Testing
import Wire

/// Guests and the operator's hook for sign-ups.
@Suite struct GuestHookTests {
    /// The hook is asked when a guest becomes an account, whatever it proves, and its attributes count before the guest's own.
    @Test func aGuestIsNoWayAroundTheHook() async throws {
        let fixture = try AccountsFixture()
        let anonymous = AnonymousAccounts(context: fixture.context, mint: fixture.mint, limiter: fixture.limiter)
        let asked = Mutex<[String?]>([])
        let answer = Mutex<SignUpAnswer>(.rejected("No."))
        var context = fixture.context
        context.signUpHook = { signUp in
            asked.withLock { $0.append(signUp.email?.text) }
            return answer.withLock { $0 }
        }
        fixture.providers.offer(.apple, keys: KeySet([fixture.providers.key.verificationKey]))
        let providers = ProviderSignIn(context: context, mint: fixture.mint, keys: fixture.providers, limiter: fixture.limiter)
        for (number, links) in [false, true].enumerated() {
            let granted = try await anonymous.open(contract: .anonymous, caller: fixture.caller)
            let guest = CallerSession(user: granted.account.id, session: granted.grant.session.id)
            let email = "ada\(number)@example.org"
            let token = try fixture.providers.token(.apple, subject: "\(number)", email: email, at: fixture.clock.now)
            var request = ProviderSignIn.Request(provider: .apple, idToken: token)
            request.guest = guest
            let sent = request
            func prove() async throws -> Account {
                if links { return try await providers.link(sent, to: guest, caller: fixture.caller) }
                return try await providers.signIn(sent, contract: .provider, caller: fixture.caller).account
            }
            let own = AttributeChange.merge(Array(#"{"plan":"own","theme":"dark"}"#.utf8))
            _ = try await context.store.change(own, of: guest.user, AuditContext(now: fixture.clock.now, address: nil))
            answer.withLock { $0 = .rejected("No.") }
            await #expect(throws: (any Error).self) { try await prove() }
            #expect(try await context.store.account(guest.user)?.email == nil)
            answer.withLock { $0 = .admitted(Attributes(stored: Array(#"{"plan":"trial"}"#.utf8))) }
            #expect(try await prove().id == guest.user)
            let account = try #require(try await context.store.account(guest.user))
            let json = String(decoding: account.attributes.json, as: UTF8.self)
            #expect(account.email?.text == email && json.contains(#""plan":"trial""#) && json.contains(#""theme":"dark""#))
            // An account is no guest any more.
            asked.withLock { #expect($0 == [email, email]) }
            asked.withLock { $0 = [] }
            _ = try await prove()
            asked.withLock { #expect($0 == []) }
        }
    }
}
