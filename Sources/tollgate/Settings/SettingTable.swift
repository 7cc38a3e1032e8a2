/// Every setting, in the order of the reference. A new one is a row here and a line in `all`; reading it is a line in
/// `ConfigurationReader`.
extension Setting {
    static let listen = Setting(
        "TOLLGATE_LISTEN", .addresses, default: "127.0.0.1:8000", restart: true,
        "Addresses for plain HTTP, separated by spaces: `127.0.0.1:8000`, `[::1]:8000` or `unix:/path`; `;proxy` behind one demands the PROXY protocol. Empty for none.")
    static let listenTLS = Setting(
        "TOLLGATE_LISTEN_TLS", .addresses, restart: true,
        "Addresses for HTTPS, written likewise. Needs `TOLLGATE_TLS_CERT` and `TOLLGATE_TLS_KEY`.")
    static let tlsCert = Setting(
        "TOLLGATE_TLS_CERT", .files,
        "PEM files with a certificate and its chain, one for each host name (chosen by SNI; the first is the default). A changed file is picked up without a restart.")
    static let tlsKey = Setting(
        "TOLLGATE_TLS_KEY", .files, "PEM files with the private keys, in the order of `TOLLGATE_TLS_CERT`.")
    static let adminListen = Setting(
        "TOLLGATE_ADMIN_LISTEN", .addresses, default: "127.0.0.1:9090", restart: true,
        "Where `/livez`, `/readyz`, `/metrics` and the admin API answer. Empty for none.")
    static let adminToken = Setting(
        "TOLLGATE_ADMIN_TOKEN", .text, shown: "generated, printed once", secret: true,
        "The bearer token of the admin API. A generated one is kept in `TOLLGATE_DATA_DIR`.")
    static let adminHosts = Setting(
        "TOLLGATE_ADMIN_HOSTS", .words, shown: "addresses and `localhost`",
        "Names under which the admin listener answers besides; a request for any other name is 421, except at `/livez`, `/readyz` and `/metrics`.")
    static let workers = Setting(
        "TOLLGATE_WORKERS", .count(1...1024), shown: "cores", restart: true, "Event loops, each on a thread of its own.")
    static let dataDirectory = Setting(
        "TOLLGATE_DATA_DIR", .folder, default: "./data", restart: true,
        "The folder of the signing keys, the embedded database of accounts and the last key sets of outside issuers. Made when missing, for its owner only.")
    static let publicURL = Setting(
        "TOLLGATE_PUBLIC_URL", .url, default: "http://localhost:8000",
        "The URL under which clients reach the gateway.")
    static let issuer = Setting(
        "TOLLGATE_ISSUER", .text, shown: "`TOLLGATE_PUBLIC_URL`", "`iss` of own tokens.")
    static let audience = Setting("TOLLGATE_AUDIENCE", .text, default: "tollgate", "`aud` of own tokens.")
    static let jwtSecret = Setting(
        "TOLLGATE_JWT_SECRET", .text, secret: true,
        "Signs own tokens with HS256 and this shared secret, 32 bytes or more, in place of generated keys.")
    static let signingAlgorithm = Setting(
        "TOLLGATE_SIGNING_ALGORITHM", .choice(["ES256", "EdDSA", "RS256", "HS256"]), default: "ES256",
        "What a newly generated signing key is for.")
    static let clockSkew = Setting(
        "TOLLGATE_CLOCK_SKEW", .duration(0...600_000), default: "30s", "Leeway on `exp` and `nbf`, up to 10 minutes.")
    static let tiers = Setting(
        "TOLLGATE_TIERS", .words, default: "free premium", "The tiers, ascending; the first is everyone's.")
    static let trust = Setting(
        "TOLLGATE_TRUST_", .line,
        "An outside issuer: `issuer=URL audience=A jwks=URL-or-file algorithms=RS256,ES256`, or `secret-file=F algorithms=HS256`; then `user-claim=sub tier-claim=tier email-claim=email max-lifetime=7d refresh=URL refresh-contract=password`. Without `issuer=` it matches only tokens that have no `iss`; only `audience=any` leaves `aud` unchecked.")
    static let upstream = Setting(
        "TOLLGATE_UPSTREAM_", .line,
        "One or more base URLs (`http://`, `https://`, `unix:/path`), then `balance=least|round health=/healthz timeout=30s connect-timeout=2s retries=1 max-connections=N host=client|upstream tls-ca=FILE`.")
    static let route = Setting(
        "TOLLGATE_ROUTE_", .line,
        "`[METHODS] [HOST]/PATH upstream=NAME key=value …`; `tollgate help routes` lists the keys.")
    static let internalCaller = Setting(
        "TOLLGATE_INTERNAL_", .line,
        "A trusted service for `auth=internal` and for transparent refresh: any of `key-sha256=HEX`, `cidr=10.0.0.0/8` and `cert-san=spiffe://…`; all given must hold.")
    static let trustedProxies = Setting(
        "TOLLGATE_TRUSTED_PROXIES", .networks,
        "CIDRs whose `X-Forwarded-For`, `Forwarded` and `X-Request-Id` are believed.")
    static let redisURL = Setting(
        "REDIS_URL", .url, shown: "counters in process", secret: true, restart: true,
        "The Redis in which several gateways count limits together: `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS, or `unix:/path?db=0`.")
    static let rateLimitFailure = Setting(
        "TOLLGATE_RATE_LIMIT_FAILURE", .choice(["local", "open", "closed"]), default: "local", restart: true,
        "What a limit does when Redis does not answer within 25 ms: `local` counts in this gateway, with its share of the limit; `open` lets pass; `closed` answers 503.")
    static let tokenCache = Setting(
        "TOLLGATE_TOKEN_CACHE", .count(0...16_777_216), default: "65536", restart: true, "Verified tokens kept per worker.")
    static let headerTimeout = Setting(
        "TOLLGATE_HEADER_TIMEOUT", .duration(100...3_600_000), default: "10s",
        "How long a client may take for a whole request head, from its first byte, and for the TLS handshake; bytes that come meanwhile do not stretch it.")
    static let bodyTimeout = Setting(
        "TOLLGATE_BODY_TIMEOUT", .duration(100...3_600_000), default: "30s",
        "How long a request body may take before it must have come at 1 KiB a second on average, so that dripping does not stretch it.")
    static let sendTimeout = Setting(
        "TOLLGATE_SEND_TIMEOUT", .duration(100...86_400_000), default: "60s",
        "How long a client may take to read something of an answer that waits for it; beyond that time it must have taken 1 KiB a second on average, so that dripping does not stretch it.")
    static let idleTimeout = Setting(
        "TOLLGATE_IDLE_TIMEOUT", .duration(100...86_400_000), default: "75s",
        "How long a connection is kept open between requests.")
    static let drainTimeout = Setting(
        "TOLLGATE_DRAIN_TIMEOUT", .duration(0...86_400_000), default: "30s",
        "How long running requests may take after SIGTERM before they are cut.")
    static let maxConnections = Setting(
        "TOLLGATE_MAX_CONNECTIONS", .count(1...16_777_216), default: "100000",
        "Client connections at a time, over all workers; past it a new one is closed at once.")
    static let upgradeURL = Setting(
        "TOLLGATE_UPGRADE_URL", .url, "Where a caller who was refused for their tier can upgrade.")
    static let log = Setting(
        "TOLLGATE_LOG", .choice(["debug", "info", "warning", "error"]), default: "info", "The level of the log.")
    static let accessLog = Setting(
        "TOLLGATE_ACCESS_LOG", .choice(["json", "text", "off"]), default: "json", restart: true,
        "The form of the access log, one line a request on standard output.")

    static let contracts = Setting(
        "TOLLGATE_CONTRACTS", .mounts, default: "password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/",
        "The client contracts that the gateway answers itself, each as `id@base`. Empty for none.")
    static let dlauthPath = Setting(
        "TOLLGATE_DLAUTH_PATH_", .text,
        "A path of the `dlauth` contract in place of its document's, below its base; `SIGN_UP`, `SIGN_IN`, `SIGN_OUT`, `USER`, `RESEND_OTP`, `VERIFY_OTP`, `FORGOT_PASSWORD`, `RESET_PASSWORD`, `UPDATE_PASSWORD` or `REFRESH_SESSION`.")
    static let provider = Setting(
        "TOLLGATE_PROVIDER_", .line,
        "Sign-in with ID tokens of `APPLE` or `GOOGLE`: `client-ids=A,B`, the apps whose tokens count; then `issuer=… jwks=URL-or-file` in place of the provider's own.")
    static let databaseURL = Setting(
        "DATABASE_URL", .url, shown: "embedded SQLite", secret: true, restart: true,
        "Where accounts live: `postgres://user:password@host/database`, or `sqlite:///path/to/file`; without it a file in `TOLLGATE_DATA_DIR`.")
    static let requireConfirmedEmail = Setting(
        "TOLLGATE_REQUIRE_CONFIRMED_EMAIL", .choice(["false", "true"]), default: "false",
        "Whether an account of the `dlauth` contract gets a session only when its email is proven.")
    static let refreshGrace = Setting(
        "TOLLGATE_REFRESH_GRACE", .duration(0...600_000), default: "30s",
        "How long a spent refresh token still gets its successor, although that has arrived.")
    static let tierGrace = Setting(
        "TOLLGATE_TIER_GRACE", .duration(0...2_678_400_000), default: "0s",
        "How long a tier counts beyond its end (`until`), for a subscription whose renewal is late; up to 31 days.")
    static let tlsClientCA = Setting(
        "TOLLGATE_TLS_CLIENT_CA", .files,
        "PEM file of the CA of internal callers (mTLS): a client certificate is asked for, need not come, and must lead to it. A changed file is picked up without a restart.")
    static let consoleOnMain = Setting(
        "TOLLGATE_CONSOLE_ON_MAIN", .choice(["false", "true"]), default: "false", stage: .ignored,
        "Whether the console answers on the main listeners too.")
    static let keySecret = Setting(
        "TOLLGATE_KEY_SECRET", .text, secret: true, restart: true,
        "32 bytes or more that several gateways have in common: seals the signing keys that they share through PostgreSQL, keys what limits are counted by in Redis, and vouches for what they tell each other there.")
    static let smtpURL = Setting(
        "SMTP_URL", .url, shown: "development outbox", secret: true,
        "The mail server: `smtps://user:password@host:465` is TLS at once, `smtp://user:password@host:587` upgrades where the server offers it, and must if a password would leave the machine. `?tls-ca=FILE` trusts an authority of one's own. Without it mail lands in the outbox that `tollgate outbox` prints.")
    static let mailFrom = Setting(
        "TOLLGATE_MAIL_FROM", .text, "The sender of mails, `Example <no-reply@example.org>`. Needed with `SMTP_URL`.")
    static let smsURL = Setting(
        "TOLLGATE_SMS_URL", .url, shown: "development outbox", secret: true,
        "The HTTP webhook that sends SMS: `POST` with `{\"to\",\"text\"}`, any 2xx is success.")
    static let resetURL = Setting(
        "TOLLGATE_RESET_URL", .url, "The link in a reset mail; `token` is appended. Without it the mail brings the token.")

    package static let all: [Setting] = [
        listen, listenTLS, tlsCert, tlsKey, adminListen, adminToken, adminHosts, workers, dataDirectory, publicURL, issuer, audience,
        jwtSecret, signingAlgorithm, clockSkew, tiers, trust, upstream, route, internalCaller, trustedProxies, redisURL, rateLimitFailure,
        tokenCache, contracts, dlauthPath, provider, databaseURL, requireConfirmedEmail, refreshGrace, tierGrace,
        headerTimeout, bodyTimeout, sendTimeout, idleTimeout, drainTimeout, maxConnections, upgradeURL, log, accessLog,
        smtpURL, mailFrom, smsURL, resetURL, tlsClientCA, consoleOnMain, keySecret,
    ]
}
