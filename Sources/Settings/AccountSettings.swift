/// The settings of contracts, accounts and sessions that are not plain.
extension Setting {
    package static let contracts = Setting(
        "TOLLGATE_CONTRACTS", .words(\.contracts) { $0 }.emptyIsNone,
        default: "password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/",
        "The client contracts that the gateway serves, each as `id@base`. Empty for none.")
    package static let dlauthPath = Setting(
        "TOLLGATE_DLAUTH_PATH_", .entries(\.dlauthPaths),
        "Overrides a path of the `dlauth` contract, below its base: `SIGN_UP`, `SIGN_IN`, `SIGN_OUT`, `USER`, `RESEND_OTP`, `VERIFY_OTP`, `FORGOT_PASSWORD`, `RESET_PASSWORD`, `UPDATE_PASSWORD` or `REFRESH_SESSION`."
    )
    package static let provider = Setting(
        "TOLLGATE_PROVIDER_", .lines(\.providers),
        "Sign-in with ID tokens of `APPLE`, `GOOGLE`, `MICROSOFT`, `FACEBOOK`, `LINE`, `KAKAO`, or [any other provider](contracts/provider.md#other-providers): `client-ids=A,B` are the accepted audiences; `issuer=… jwks=URL-or-file` are its own, needed for names that are not known here; `email=trusted|untrusted nonce=required|optional`."
    )
    package static let product = Setting(
        "TOLLGATE_PRODUCT_", .lines(\.products),
        "Products of stores that give a tier: `tier=premium apple=ID,ID google=ID stripe=price_… revenuecat=ID`; `grace=16d` keeps the tier for that time while a payment is late, in place of the store's."
    )
    package static let account = Setting(
        "TOLLGATE_ACCOUNT", .line(\.account),
        "The base path of the endpoints of [accounts](accounts.md#what-users-see-and-change) for the users of all contracts, like `/account`; `writable=name,locale` names the attributes that users may write. Empty: there are none."
    )
    package static let deletion = Setting(
        "TOLLGATE_DELETION", .line(\.deletion), shown: "`grace=0s recent=10m`",
        "When users delete [their accounts](accounts.md#leaving): `recent=10m` is how old their sign-in may be, `grace=14d` keeps a closed account for that time, and a sign-in opens it again. Without a grace it is erased at once."
    )
    package static let appleKey = Setting(
        "TOLLGATE_APPLE_KEY", .line(\.appleKey),
        "The key of Sign in with Apple, by which the `authorizationCode` of a sign-in is exchanged and the token [revoked](accounts.md#apples-tokens) when the account is deleted or unlinked: `team=T key-id=K key-file=F client-id=com.example.app`; `url=URL` is for tests."
    )
    package static let events = Setting(
        "TOLLGATE_EVENTS_", .lines(\.events),
        "A service that is told what happens to [accounts](accounts.md#events): `url=URL secret-file=F kinds=account.*,tier.changed`, signed as Standard Webhooks has it; `private=on` lets its host have a private address."
    )
    package static let signUpHook = Setting(
        "TOLLGATE_HOOK_SIGNUP", .line(\.signUpHook),
        "A service that is asked before an [account](accounts.md#sign-ups) is opened: `url=URL secret-file=F timeout=2s failure=closed|open`."
    )
    package static let appleStore = Setting(
        "TOLLGATE_PURCHASES_APPLE", .line(\.appleStore),
        "Purchases of the App Store: `bundle-ids=A,B app-apple-id=N`; `environments=production,sandbox` lets those count that cost nothing; `api-key-file=F key-id=… issuer-id=…` let the gateway ask Apple for purchases in doubt; `roots=FILE` and `api-url=URL` are for tests."
    )
    package static let googleStore = Setting(
        "TOLLGATE_PURCHASES_GOOGLE", .line(\.googleStore),
        "Purchases of Google Play: `packages=A,B service-account=FILE push-email=NAME@PROJECT.iam.gserviceaccount.com`; `audience=` is that of the pushes; `environments=production,sandbox` lets purchases of license testers count; `jwks=URL token-url=URL api-url=URL` are for tests."
    )
    package static let stripeStore = Setting(
        "TOLLGATE_PURCHASES_STRIPE", .line(\.stripeStore),
        "Purchases by Stripe: `secret-file=F,F` is the signing secret of the webhook, `api-key-file=F` lets the gateway ask Stripe; `environments=production,sandbox` lets test payments count; `api-url=URL` is for tests."
    )
    package static let revenueCatStore = Setting(
        "TOLLGATE_PURCHASES_REVENUECAT", .line(\.revenueCatStore),
        "Purchases by RevenueCat: `authorization-file=F` holds the `Authorization` of its webhooks; `environments=production,sandbox` lets those count that cost nothing."
    )
    package static let ownDatabaseURL = Setting(
        "TOLLGATE_DATABASE_URL", .secretText(\.ownDatabaseURL), shown: "`DATABASE_URL`", secret: true, restart: true,
        "The database of accounts, where `DATABASE_URL` is another program's: it wins.")
    package static let ownDatabaseDirectURL = Setting(
        "TOLLGATE_DATABASE_URL_DIRECT", .secretText(\.ownDatabaseDirectURL), shown: "`DATABASE_URL_DIRECT`", secret: true, restart: true,
        "The server beside `TOLLGATE_DATABASE_URL`; it wins over `DATABASE_URL_DIRECT`.")
    package static let databaseURL = Setting(
        "DATABASE_URL", .secretText(\.commonDatabaseURL), shown: "embedded SQLite", secret: true, restart: true,
        "The database of accounts: `postgres://user:password@host/database` or `sqlite:///path/to/file`; by default a SQLite file in `TOLLGATE_DATA_DIR`."
    )
    package static let databaseDirectURL = Setting(
        "DATABASE_URL_DIRECT", .secretText(\.commonDatabaseDirectURL), shown: "`DATABASE_URL`", secret: true, restart: true,
        "The PostgreSQL server itself, `postgres://…`, where `DATABASE_URL` names a pooler in transaction mode: its notifications come from there."
    )
    package static let accessLifetime = Setting(
        "TOLLGATE_ACCESS_TTL_", .entries(\.accessLifetimes), shown: "the contract's",
        "The lifetime of a contract's access tokens, like `TOLLGATE_ACCESS_TTL_DLAUTH=15m`; at most what its document says: `PASSWORD` and `APPLE` 7 d, `PROVIDER` and `DLAUTH` 1 h, `ANONYMOUS` 15 min."
    )
    package static let refreshLifetime = Setting(
        "TOLLGATE_REFRESH_TTL_", .entries(\.refreshLifetimes), shown: "the contract's",
        "The time for which a session can be refreshed, from its last refresh (for `PASSWORD` from the sign-in); at most what the contract's document says: `PASSWORD`, `PROVIDER` and `DLAUTH` 30 d, `ANONYMOUS` 7 d. `APPLE` has no refresh tokens. Sessions that are open already keep their time until the next refresh."
    )
    package static let deviceKey = Setting(
        "TOLLGATE_DEVICE_KEY_", .entries(\.deviceKeys), shown: "`offered`",
        "Whether sessions of a contract belong to [keys of devices](sessions.md#sessions-of-a-device): `offered`, `required` or `off`.")
    package static let maxSessions = Setting(
        "TOLLGATE_MAX_SESSIONS", .maxSessions, default: "100",
        "The maximum number of sessions of one account, or by tier like `free:5,premium:20`; a sign-in beyond it ends the one that was not used for longest. A tier that is left out has the number of the nearest lower one."
    )
    package static let factor = Setting(
        "TOLLGATE_FACTOR", .factor, default: "off",
        "The [second factor](second-factor.md) of accounts, authenticator apps and backup codes, which needs `TOLLGATE_ACCOUNT`: `off`, `offered`, or `required:TIER`, by which users of that tier and above must have proven one in their session on routes that identify them."
    )
}
