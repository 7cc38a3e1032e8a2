internal import Credentials
internal import Gate
internal import Telemetry

/// Every setting, in the order of the reference, which is the order of reading. A new one is a row here, its name in `all`,
/// and its part of `Configuration`.
extension Setting {
    package static let listen = Setting(
        "TOLLGATE_LISTEN", .addresses, .listeners(\.listeners), default: "127.0.0.1:8000", restart: true,
        "Addresses for plain HTTP, separated by spaces: `127.0.0.1:8000`, `[::1]:8000` or `unix:/path`; `;proxy` behind one demands the PROXY protocol. Empty for none.")
    package static let listenTLS = Setting(
        "TOLLGATE_LISTEN_TLS", .addresses, .listeners(\.tlsListeners), restart: true,
        "Addresses for HTTPS, written likewise. Needs `TOLLGATE_TLS_CERT` and `TOLLGATE_TLS_KEY`.")
    package static let tlsCert = Setting(
        "TOLLGATE_TLS_CERT", .files, .certificates,
        "PEM files with a certificate and its chain, one for each host name (chosen by SNI; the first is the default). A changed file is picked up without a restart.")
    package static let tlsKey = Setting(
        "TOLLGATE_TLS_KEY", .files, .besideAnother, "PEM files with the private keys, in the order of `TOLLGATE_TLS_CERT`.")
    package static let adminListen = Setting(
        "TOLLGATE_ADMIN_LISTEN", .addresses, .listeners(\.adminListeners, allowsProxy: false), default: "127.0.0.1:9090", restart: true,
        "Where `/livez`, `/readyz`, `/metrics` and the admin API answer. Empty for none.")
    package static let adminToken = Setting(
        "TOLLGATE_ADMIN_TOKEN", .text, .secret(\.adminToken), shown: "generated, printed once", secret: true,
        "The bearer token of the admin API. A generated one is kept in `TOLLGATE_DATA_DIR`.")
    package static let adminHosts = Setting(
        "TOLLGATE_ADMIN_HOSTS", .words, .words(\.adminHosts, TypedText.hostName), shown: "addresses and `localhost`",
        "Names under which the admin listener answers besides; a request for any other name is 421, except at `/livez`, `/readyz` and `/metrics`.")
    package static let workers = Setting(
        "TOLLGATE_WORKERS", .count(1...1024), .count(\.workers), shown: "cores", restart: true, "Event loops, each on a thread of its own.")
    package static let dataDirectory = Setting(
        "TOLLGATE_DATA_DIR", .folder, .text(\.dataDirectory), default: "./data", restart: true,
        "The folder of the signing keys, the embedded database of accounts and the last key sets of outside issuers. Made when missing, for its owner only.")
    package static let publicURL = Setting(
        "TOLLGATE_PUBLIC_URL", .url, .url(\.publicURL), default: "http://localhost:8000",
        "The URL under which clients reach the gateway.")
    package static let issuer = Setting(
        "TOLLGATE_ISSUER", .text, .text(\.issuer), shown: "`TOLLGATE_PUBLIC_URL`", "`iss` of own tokens.")
    package static let audience = Setting("TOLLGATE_AUDIENCE", .text, .text(\.audience), default: "tollgate", "`aud` of own tokens.")
    package static let jwtSecret = Setting(
        "TOLLGATE_JWT_SECRET", .text, .secret(\.jwtSecret), secret: true,
        "Signs own tokens with HS256 and this shared secret, 32 bytes or more, in place of generated keys.")
    package static let signingAlgorithm = Setting(
        "TOLLGATE_SIGNING_ALGORITHM", .choice(["ES256", "EdDSA", "RS256", "HS256"]), .choice(\.signingAlgorithm) { SigningAlgorithm(name: $0) }, default: "ES256",
        "What a newly generated signing key is for.")
    package static let clockSkew = Setting(
        "TOLLGATE_CLOCK_SKEW", .duration(0...600_000), .seconds(\.clockSkewSeconds), default: "30s", "Leeway on `exp` and `nbf`, up to 10 minutes.")
    package static let tiers = Setting(
        "TOLLGATE_TIERS", .words, .tiers, default: "free premium", "The tiers, ascending; the first is everyone's.")
    package static let trust = Setting(
        "TOLLGATE_TRUST_", .line, .lines(\.trusts) { TrustLine.parse($0, name: $1, $2.sources) },
        "An outside issuer: `issuer=URL audience=A jwks=URL-or-file algorithms=RS256,ES256`, or `secret-file=F algorithms=HS256`; then `user-claim=sub tier-claim=tier email-claim=email max-lifetime=7d refresh=URL refresh-contract=password`. Without `issuer=` it matches only tokens that have no `iss`; only `audience=any` leaves `aud` unchecked.")
    package static let upstream = Setting(
        "TOLLGATE_UPSTREAM_", .line, .lines(\.upstreams) { entry, name, _ in UpstreamLine.parse(entry, name: name) },
        "One or more base URLs (`http://`, `https://`, `unix:/path`), then `balance=least|round health=/healthz timeout=30s connect-timeout=2s retries=1 max-connections=N host=client|upstream tls-ca=FILE`.")
    package static let route = Setting(
        "TOLLGATE_ROUTE_", .line, .lines(\.routes) { RouteLine.parse($0, name: $1, tiers: $2.configuration.tiers) },
        "`[METHODS] [HOST]/PATH upstream=NAME key=value …`; `tollgate help routes` lists the keys.")
    package static let internalCaller = Setting(
        "TOLLGATE_INTERNAL_", .line, .lines(\.internals) { entry, name, _ in InternalLine.parse(entry, name: name) },
        "A trusted service for `auth=internal` and for transparent refresh: any of `key-sha256=HEX`, `cidr=10.0.0.0/8` and `cert-san=spiffe://…`; all given must hold.")
    package static let trustedProxies = Setting(
        "TOLLGATE_TRUSTED_PROXIES", .networks, .words(\.trustedProxies, TypedText.network),
        "CIDRs whose `X-Forwarded-For`, `Forwarded` and `X-Request-Id` are believed.")
    package static let redisURL = Setting(
        "REDIS_URL", .url, .secretText(\.redisURL), shown: "counters in process", secret: true, restart: true,
        "The Redis in which several gateways count limits together: `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS, or `unix:/path?db=0`.")
    package static let rateLimitFailure = Setting(
        "TOLLGATE_RATE_LIMIT_FAILURE", .choice(["local", "open", "closed"]), .choice(\.rateLimitFailure) { LimitFailureMode(name: $0) }, default: "local", restart: true,
        "What a limit does when Redis does not answer within 25 ms: `local` counts in this gateway, with its share of the limit; `open` lets pass; `closed` answers 503.")
    package static let tokenCache = Setting(
        "TOLLGATE_TOKEN_CACHE", .count(0...16_777_216), .count(\.tokenCacheEntries), default: "65536", restart: true, "Verified tokens kept per worker.")
    package static let headerTimeout = Setting(
        "TOLLGATE_HEADER_TIMEOUT", .duration(100...3_600_000), .milliseconds(\.headerTimeoutMilliseconds), default: "10s",
        "How long a client may take for a whole request head, from its first byte, and for the TLS handshake; bytes that come meanwhile do not stretch it.")
    package static let bodyTimeout = Setting(
        "TOLLGATE_BODY_TIMEOUT", .duration(100...3_600_000), .milliseconds(\.bodyTimeoutMilliseconds), default: "30s",
        "How long a request body may take before it must have come at 1 KiB a second on average, so that dripping does not stretch it.")
    package static let sendTimeout = Setting(
        "TOLLGATE_SEND_TIMEOUT", .duration(100...86_400_000), .milliseconds(\.sendTimeoutMilliseconds), default: "60s",
        "How long a client may take to read something of an answer that waits for it; beyond that time it must have taken 1 KiB a second on average, so that dripping does not stretch it.")
    package static let idleTimeout = Setting(
        "TOLLGATE_IDLE_TIMEOUT", .duration(100...86_400_000), .milliseconds(\.idleTimeoutMilliseconds), default: "75s",
        "How long a connection is kept open between requests.")
    package static let drainTimeout = Setting(
        "TOLLGATE_DRAIN_TIMEOUT", .duration(0...86_400_000), .milliseconds(\.drainTimeoutMilliseconds), default: "30s",
        "How long running requests may take after SIGTERM before they are cut.")
    package static let maxConnections = Setting(
        "TOLLGATE_MAX_CONNECTIONS", .count(1...16_777_216), .count(\.maxConnections), default: "100000",
        "Client connections at a time, over all workers; past it a new one is closed at once.")
    package static let upgradeURL = Setting(
        "TOLLGATE_UPGRADE_URL", .url, .url(\.upgradeURL), "Where a caller who was refused for their tier can upgrade.")
    package static let log = Setting(
        "TOLLGATE_LOG", .choice(["debug", "info", "warning", "error"]), .choice(\.logLevel) { name in LogLevel.allCases.first { $0.text.description == name } }, default: "info", "The level of the log.")
    package static let accessLog = Setting(
        "TOLLGATE_ACCESS_LOG", .choice(["json", "text", "off"]), .choice(\.accessLog) { AccessLogFormat(rawValue: $0) }, default: "json", restart: true,
        "The form of the access log, one line a request on standard output.")

    package static let contracts = Setting(
        "TOLLGATE_CONTRACTS", .mounts, .words(\.contracts) { $0 }, default: "password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/",
        "The client contracts that the gateway answers itself, each as `id@base`. Empty for none.")
    package static let dlauthPath = Setting(
        "TOLLGATE_DLAUTH_PATH_", .text, .entries(\.dlauthPaths),
        "A path of the `dlauth` contract in place of its document's, below its base; `SIGN_UP`, `SIGN_IN`, `SIGN_OUT`, `USER`, `RESEND_OTP`, `VERIFY_OTP`, `FORGOT_PASSWORD`, `RESET_PASSWORD`, `UPDATE_PASSWORD` or `REFRESH_SESSION`.")
    package static let provider = Setting(
        "TOLLGATE_PROVIDER_", .line, .lines(\.providers) { ProviderLine.parse($0, name: $1, $2.sources) },
        "Sign-in with ID tokens of `APPLE` or `GOOGLE`: `client-ids=A,B`, the apps whose tokens count; then `issuer=… jwks=URL-or-file` in place of the provider's own.")
    package static let databaseURL = Setting(
        "DATABASE_URL", .url, .secretText(\.databaseURL), shown: "embedded SQLite", secret: true, restart: true,
        "Where accounts live: `postgres://user:password@host/database`, or `sqlite:///path/to/file`; without it a file in `TOLLGATE_DATA_DIR`.")
    package static let requireConfirmedEmail = Setting(
        "TOLLGATE_REQUIRE_CONFIRMED_EMAIL", .choice(["false", "true"]), .choice(\.mustConfirmEmail) { $0 == "true" }, default: "false",
        "Whether an account of the `dlauth` contract gets a session only when its email is proven.")
    package static let refreshGrace = Setting(
        "TOLLGATE_REFRESH_GRACE", .duration(0...600_000), .seconds(\.refreshGraceSeconds), default: "30s",
        "How long a spent refresh token still gets its successor, although that has arrived.")
    package static let signUpLimit = Setting(
        "TOLLGATE_SIGNUP_LIMIT", .rate, .rate(\.signUpLimit), default: "300/h+burst=100",
        "Accounts that one address may open, over all contracts; IPv6 counts by /64.")
    package static let smsBudget = Setting(
        "TOLLGATE_SMS_BUDGET", .rate, .rate(\.smsBudget), default: "1000/h",
        "SMS at most, over all gateways that share a Redis; past it a request for one is 429, and the log says so.")
    package static let tierGrace = Setting(
        "TOLLGATE_TIER_GRACE", .duration(0...2_678_400_000), .seconds(\.tierGraceSeconds), default: "0s",
        "How long a tier counts beyond its end (`until`), for a subscription whose renewal is late; up to 31 days.")
    package static let tlsClientCA = Setting(
        "TOLLGATE_TLS_CLIENT_CA", .files, .oneFile(\.tlsClientAuthority),
        "PEM file of the CA of internal callers (mTLS): a client certificate is asked for, need not come, and must lead to it. A changed file is picked up without a restart.")
    package static let consoleOnMain = Setting(
        "TOLLGATE_CONSOLE_ON_MAIN", .choice(["false", "true"]), .unread, default: "false", stage: .ignored,
        "Whether the console answers on the main listeners too.")
    package static let keySecret = Setting(
        "TOLLGATE_KEY_SECRET", .text, .secret(\.keySecret), secret: true, restart: true,
        "32 bytes or more that several gateways have in common: seals the signing keys that they share through PostgreSQL, keys what limits are counted by in Redis, and vouches for what they tell each other there.")
    package static let smtpURL = Setting(
        "SMTP_URL", .url, .secretText(\.smtpURL), shown: "development outbox", secret: true,
        "The mail server: `smtps://user:password@host:465` is TLS at once, `smtp://user:password@host:587` upgrades where the server offers it, and must if a password would leave the machine. `?tls-ca=FILE` trusts an authority of one's own. Without it mail lands in the outbox that `tollgate outbox` prints.")
    package static let mailFrom = Setting(
        "TOLLGATE_MAIL_FROM", .text, .text(\.mailFrom), "The sender of mails, `Example <no-reply@example.org>`. Needed with `SMTP_URL`.")
    package static let smsURL = Setting(
        "TOLLGATE_SMS_URL", .url, .secretURL(\.smsURL), shown: "development outbox", secret: true,
        "The HTTP webhook that sends SMS: `POST` with `{\"to\",\"text\"}`, any 2xx is success.")
    package static let resetURL = Setting(
        "TOLLGATE_RESET_URL", .url, .url(\.resetURL), "The link in a reset mail; `token` is appended. Without it the mail brings the token.")

    package static let all: [Setting] = [
        listen, listenTLS, tlsCert, tlsKey, adminListen, adminToken, adminHosts, workers, dataDirectory, publicURL, issuer, audience,
        jwtSecret, signingAlgorithm, clockSkew, tiers, trust, upstream, route, internalCaller, trustedProxies, redisURL, rateLimitFailure,
        tokenCache, contracts, dlauthPath, provider, databaseURL, requireConfirmedEmail, signUpLimit, refreshGrace, tierGrace,
        headerTimeout, bodyTimeout, sendTimeout, idleTimeout, drainTimeout, maxConnections, upgradeURL, log, accessLog,
        smtpURL, mailFrom, smsURL, smsBudget, resetURL, tlsClientCA, consoleOnMain, keySecret,
    ]
}
