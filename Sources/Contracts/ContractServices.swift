package import Accounts
package import Gate
import HTTP
import Wire

/// The services and settings that contracts use.
package struct ContractServices: Sendable {
    package let passwords: PasswordAccounts
    package let resets: PasswordReset
    package let codes: Codes
    package let providers: ProviderSignIn
    package let anonymous: AnonymousAccounts
    package let sessions: Sessions
    package let accounts: any AccountLookUp
    package let page: WebPage
    package let tiers: TierList
    /// Seconds that a tier stays in force beyond its end (`TOLLGATE_TIER_GRACE`).
    package var tierGraceSeconds: Int64
    /// Whether an account of `dlauth` gets a session only when its email is proven (`TOLLGATE_REQUIRE_CONFIRMED_EMAIL`).
    package var mustConfirmEmail: Bool
    package let clock: AccountClock
    /// nil without `TOLLGATE_PURCHASES`.
    package let purchases: Purchases?
    /// nil without `TOLLGATE_ACCOUNT`.
    package var life: AccountLife?
    /// Verifies the access tokens of guests.
    package let judge: TokenJudge
    /// Verifies proofs of device keys.
    package let proofs: DeviceProofs

    package init(
        passwords: PasswordAccounts, resets: PasswordReset, codes: Codes, providers: ProviderSignIn,
        anonymous: AnonymousAccounts, sessions: Sessions, accounts: any AccountLookUp, page: WebPage, tiers: TierList,
        tierGraceSeconds: Int64 = 0, mustConfirmEmail: Bool, clock: AccountClock, purchases: Purchases? = nil,
        life: AccountLife? = nil, judge: TokenJudge, proofs: DeviceProofs
    ) {
        self.passwords = passwords
        self.resets = resets
        self.codes = codes
        self.providers = providers
        self.anonymous = anonymous
        self.sessions = sessions
        self.accounts = accounts
        self.page = page
        self.tiers = tiers
        self.tierGraceSeconds = tierGraceSeconds
        self.mustConfirmEmail = mustConfirmEmail
        self.clock = clock
        self.purchases = purchases
        self.life = life
        self.judge = judge
        self.proofs = proofs
    }

    /// The tier in force; a tier that the gateway no longer has counts as the lowest.
    func tier(of account: Account) -> Tier { grant(of: account).flatMap { tiers.rank(of: $0.tier) } ?? .lowest }

    /// The grant of that tier; nil for the lowest.
    func grant(of account: Account) -> Grant? {
        account.entitlement.grant(at: clock.now().wall, graceSeconds: tierGraceSeconds, TierOrder(tiers.names))
    }
}
