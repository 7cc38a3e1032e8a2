package import Accounts
package import Gate
import HTTP
import Wire

/// Endpoints in one dialect. They translate requests into account calls and results into responses; the rules are in
/// `Accounts`.
protocol AccountInterface: Sendable {
    associatedtype Endpoint: AccountEndpoint

    /// Prefix of its endpoints' names in logs and metrics.
    static var name: String { get }
    /// nil for the account page.
    static var contract: ContractID? { get }
    /// The envelope of its errors.
    static var dialect: Dialect { get }

    init(_ services: ContractServices)

    /// The response to a request that succeeds.
    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws(Failure) -> LocalResponse
}

/// A client contract: a sign-in API that apps were written against.
protocol ClientContract: AccountInterface {
    static var id: ContractID { get }
}

extension ClientContract {
    static var name: String { id.name }
    static var contract: ContractID? { id }
}

extension AccountInterface {
    /// The response to a request; failures are written in the envelope of the dialect.
    func respond(_ endpoint: Endpoint, _ request: LocalRequest) async -> LocalResponse {
        do throws(Failure) {
            return try await answer(endpoint, ContractRequest(request, in: Self.dialect))
        } catch {
            return error.response(in: Self.dialect, requestID: request.requestID)
        }
    }

    /// Makes an account call. `refused` translates its refusals; other failures are those of the dialect, or of `failed`.
    func call<Value, Refusal>(
        _ call: @autoclosure () async throws(AccountError<Refusal>) -> Value,
        failed: (AccountFailure) -> Failure = { Failure($0, in: Self.dialect) }, refused: (Refusal) -> Failure
    ) async throws(Failure) -> Value {
        do throws(AccountError<Refusal>) {
            return try await call()
        } catch {
            switch error {
            case .refused(let refusal): throw refused(refusal)
            case .failed(let failure): throw failed(failure)
            }
        }
    }

    /// Makes an account call without refusals.
    func call<Value>(_ call: @autoclosure () async throws(AccountFailure) -> Value) async throws(Failure) -> Value {
        do throws(AccountFailure) {
            return try await call()
        } catch {
            throw Failure(error, in: Self.dialect)
        }
    }

    /// Ends the caller's session. An outside issuer's session ends with the bearer, and with the refresh token if the body has it
    /// under this name.
    func signOut(_ request: ContractRequest, refreshToken name: String, _ services: ContractServices) async throws(Failure) {
        switch try request.person() {
        case .session(let session): try await call(await services.sessions.signOut(session, caller: request.caller))
        case .outside(let token):
            let refresh = try request.text(name)
            try await call(await services.sessions.signOut(token, refreshToken: refresh, caller: request.caller))
        }
    }

    /// A value parsed from a text; `message` if the text is malformed.
    func parse<Value>(
        _ value: @autoclosure () throws(MalformedText) -> Value, orSay message: String
    ) throws(Failure) -> Value {
        do throws(MalformedText) {
            return try value()
        } catch {
            throw .malformed(message, in: Self.dialect)
        }
    }
}

/// An endpoint of a contract's document; the raw value is its name in logs and metrics.
protocol AccountEndpoint: CaseIterable, Sendable, RawRepresentable<String> {
    /// GET endpoints answer HEAD as well.
    var method: Method { get }
    /// Relative to the base of the mount. Begins with a slash and does not end in one.
    var path: String { get }
    /// Whether it also answers paths below its own.
    var isPrefix: Bool { get }
    /// Whether the operator may set another path.
    var hasSettablePath: Bool { get }
    /// Use of a bearer: `required`, `optional`, or `none`, where one that is sent is ignored, because clients send expired
    /// tokens along. The gate refuses valid actor tokens at every endpoint.
    var auth: AuthMode { get }
    /// Whether it renews an app's tokens: such requests must not wait for sign-ins.
    var isRefresh: Bool { get }
}

extension AccountEndpoint {
    var isPrefix: Bool { false }
    var hasSettablePath: Bool { false }
    var isRefresh: Bool { false }
}

/// The services and settings that contracts use.
package struct ContractServices: Sendable {
    package let passwords: PasswordAccounts
    package let resets: PasswordReset
    package let codes: Codes
    package let providers: ProviderSignIn
    package let anonymous: AnonymousAccounts
    package let sessions: Sessions
    package let accounts: any AccountLookUp
    package let tiers: TierList
    /// Seconds that a tier stays in force beyond its end (`TOLLGATE_TIER_GRACE`).
    package var tierGraceSeconds: Int64
    /// Whether an account of `dlauth` gets a session only when its email is proven (`TOLLGATE_REQUIRE_CONFIRMED_EMAIL`).
    package var mustConfirmEmail: Bool
    package let clock: AccountClock

    package init(
        passwords: PasswordAccounts, resets: PasswordReset, codes: Codes, providers: ProviderSignIn,
        anonymous: AnonymousAccounts, sessions: Sessions, accounts: any AccountLookUp, tiers: TierList,
        tierGraceSeconds: Int64 = 0, mustConfirmEmail: Bool, clock: AccountClock
    ) {
        self.passwords = passwords
        self.resets = resets
        self.codes = codes
        self.providers = providers
        self.anonymous = anonymous
        self.sessions = sessions
        self.accounts = accounts
        self.tiers = tiers
        self.tierGraceSeconds = tierGraceSeconds
        self.mustConfirmEmail = mustConfirmEmail
        self.clock = clock
    }

    /// The tier in force; a tier that the gateway no longer has counts as the lowest.
    func tier(of account: Account) -> Tier {
        let tier = account.entitlement.tier(at: clock.now().wall, graceSeconds: tierGraceSeconds)
        return tier.flatMap { tiers.rank(of: $0) } ?? .lowest
    }
}
