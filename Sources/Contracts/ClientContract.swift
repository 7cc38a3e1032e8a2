package import Accounts
package import Gate
import HTTP
import Wire

/// Endpoints that speak to the accounts in one dialect. They map requests to calls and what comes of them to answers, and
/// decide nothing themselves.
protocol AccountInterface: Sendable {
    associatedtype Endpoint: AccountEndpoint

    /// As logs and metrics name it.
    static var name: String { get }
    /// Its envelope for what is refused.
    static var dialect: Dialect { get }

    init(_ services: ContractServices)

    /// The answer of a request that succeeds. Throws a `Failure`, or an `AccountError` for `failure` to put into words.
    func answer(_ endpoint: Endpoint, _ request: ContractRequest) async throws -> LocalResponse

    /// How these endpoints say that an account call was refused.
    func failure(_ error: AccountError, at endpoint: Endpoint) -> Failure
}

/// One client contract: the dialect that some app speaks.
protocol ClientContract: AccountInterface {
    static var id: ContractID { get }
}

extension ClientContract {
    static var name: String { id.name }
}

/// An endpoint as its document gives it; the raw value is its name in logs and metrics.
protocol AccountEndpoint: CaseIterable, Sendable, RawRepresentable<String> {
    /// GET endpoints answer HEAD as well.
    var method: Method { get }
    /// Below the base of its mount; begins with a slash and does not end in one.
    var path: String { get }
    /// Whether it takes what lies below its path.
    var isPrefix: Bool { get }
    /// `required` for endpoints that ask for a bearer, `optional` where one is looked at if there is one. A bearer that
    /// was sent to any other is ignored, for clients send expired ones along. A good one of an actor is refused everywhere
    /// before the request gets here.
    var auth: AuthMode { get }
}

extension AccountEndpoint {
    var isPrefix: Bool { false }
}

/// What the contracts call.
package struct ContractServices: Sendable {
    package let passwords: PasswordAccounts
    package let resets: PasswordReset
    package let codes: Codes
    package let providers: ProviderSignIn
    package let anonymous: AnonymousAccounts
    package let sessions: Sessions
    package let accounts: any AccountLookUp
    package let tiers: TierList
    /// How long a tier counts beyond its end (`TOLLGATE_TIER_GRACE`).
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

    /// What an account has now; a tier that the gateway no longer has counts as the lowest.
    func tier(of account: Account) -> Tier {
        let tier = account.entitlement.tier(at: clock.now().wall, graceSeconds: tierGraceSeconds)
        return tier.flatMap { tiers.rank(of: $0) } ?? .lowest
    }
}
