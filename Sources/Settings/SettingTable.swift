package import Credentials
package import Gate
package import Telemetry

/// The settings of one value each: a row is all that such a setting needs beside its use, as `configuration.NAME`.
package struct PlainSettings: Sendable {
    package static let rows = PlainSettings()

    package let dataDirectory = ValueSetting<String>(
        "TOLLGATE_DATA_DIR", .path, default: "./data", restart: true,
        "The folder of the signing keys, the embedded database of accounts and the last key sets of outside issuers. Created with mode 0700 if missing."
    )
    package let publicURL = ValueSetting<String>(
        "TOLLGATE_PUBLIC_URL", .url, default: "http://localhost:8000",
        "The URL under which clients reach the gateway.")
    package let acmeChallenge = ValueSetting<AcmeChallengeChoice>(
        "TOLLGATE_ACME_CHALLENGE", .choice(AcmeChallengeChoice.allCases, \.rawValue), default: "tls-alpn",
        "How the authority sees that a name is yours: `tls-alpn` by a handshake on port 443, `http` by a request on port 80, `dns` by a record, without a connection to the gateway."
    )
    package let issuer = ValueSetting<String>(
        "TOLLGATE_ISSUER", .text, shown: "`TOLLGATE_PUBLIC_URL`", "`iss` of own tokens.")
    package let audience = ValueSetting<String>("TOLLGATE_AUDIENCE", .text, default: "tollgate", "`aud` of own tokens.")
    package let signingAlgorithm = ValueSetting<SigningAlgorithm>(
        "TOLLGATE_SIGNING_ALGORITHM", .choice([.ES256, .EdDSA, .RS256, .HS256], \.name), default: "ES256",
        "The algorithm of newly generated signing keys.")
    package let clockSkewSeconds = ValueSetting<Int64>(
        "TOLLGATE_CLOCK_SKEW", .duration(0...600_000, unit: 1_000), default: "30s", "Leeway on `exp` and `nbf`, up to 10 minutes.")
    package let asksForNonces = ValueSetting<Bool>(
        "TOLLGATE_DPOP_NONCE", .flag(), default: "off",
        "Whether proofs of a [device key](device-keys.md) need a nonce of the gateways, which answers give in `DPoP-Nonce`.")
    package let rateLimitFailure = ValueSetting<LimitFailureMode>(
        "TOLLGATE_RATE_LIMIT_FAILURE", .choice([.local, .open, .closed], \.name), default: "local", restart: true,
        "The failure mode of limits when Redis does not answer within `TOLLGATE_REDIS_TIMEOUT`: `local` enforces this gateway's share of the limit; `open` lets requests pass; `closed` answers 503."
    )
    package let redisTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_REDIS_TIMEOUT", .duration(5...1_000), default: "25ms", restart: true,
        "The time for Redis to answer about a limit, after which `TOLLGATE_RATE_LIMIT_FAILURE` applies. A request waits at most this long for it."
    )
    package let tokenCacheEntries = ValueSetting<Int>(
        "TOLLGATE_TOKEN_CACHE", .count(0...16_777_216), default: "65536", restart: true,
        "The size of each worker's cache of verified tokens, in entries.")
    package let headerTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_HEADER_TIMEOUT", .duration(100...3_600_000), default: "10s",
        "The time for a whole request head, from its first byte, and for the TLS handshake. Further bytes do not extend it.")
    package let bodyTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_BODY_TIMEOUT", .duration(100...3_600_000), default: "30s",
        "The time after which a request body must have arrived at 1 KiB/s on average, so that a slow drip does not extend it.")
    package let bodyRate = ValueSetting<Int>(
        "TOLLGATE_BODY_MIN_RATE", .count(0...1_073_741_824), default: "240",
        "The bytes a second at which a request body must have arrived on average after 10 s, or it gets 408; `0` for any. Time in which the upstream or the connection's window takes no more does not count; calls of gRPC, and clients whose response has begun, may be silent."
    )
    package let cancelsOnHalfClose = ValueSetting<Bool>(
        "TOLLGATE_HALF_CLOSE", .choice([("wait", false), ("cancel", true)]), default: "wait",
        "What a client's end of its side (FIN) means before an upstream's response has begun: `wait` sends the response all the same; `cancel` ends the request, also at the upstream. See [streams](streams.md#clients-that-end-their-side)."
    )
    package let sendTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_SEND_TIMEOUT", .duration(100...86_400_000), default: "60s",
        "The time within which a client must read part of a waiting response, and after which it must have read 1 KiB/s on average, so that a slow drip does not extend it."
    )
    package let idleTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_IDLE_TIMEOUT", .duration(100...86_400_000), default: "75s",
        "The time for which a client connection is kept open between requests.")
    package let drainTimeoutMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_DRAIN_TIMEOUT", .duration(0...86_400_000), default: "30s",
        "The time for requests under way to finish after SIGTERM before they are cut off.")
    package let maxConnections = ValueSetting<Int>(
        "TOLLGATE_MAX_CONNECTIONS", .count(1...16_777_216), default: "100000",
        "The maximum number of client connections, over all workers; at most half of the descriptors that the process may have. When it is reached, idle ones are closed and further ones wait in the kernel's queue."
    )
    package let maxRequests = ValueSetting<Int>(
        "TOLLGATE_MAX_REQUESTS", .count(1...16_777_216), default: "20000",
        "The maximum number of requests under way, over all workers; beyond it new ones get 503 with `Retry-After` at once. Streams (`tollgate_streams_open`) do not count, nor does the admin listener."
    )
    package let maxLocalRequests = ValueSetting<Int>(
        "TOLLGATE_MAX_LOCAL_REQUESTS", .count(1...1_000_000), default: "1000",
        "The maximum number of requests to the gateway's own endpoints (sign-in and the like) at work, over all workers, each from the last byte of its content to the answer; beyond it, and while nine tenths of `TOLLGATE_MAX_REQUESTS` are under way, they get 503 with `Retry-After`. Refreshes have as many of their own, and so have the documents under `/.well-known/`."
    )
    package let clientShare = ValueSetting<Int>(
        "TOLLGATE_CLIENT_SHARE", .percentage(1...100), default: "80%",
        "How much of what clients share one of them may hold while no other holds any: an address, or the /64 of an IPv6 address. Each further one may hold as much of what is left. Holds for the bounds above and for `max-requests=`, `max-pending=` and `max-connections=` of upstreams; beyond it, 503 with `Retry-After`. `100%`: no share."
    )
    package let maxBuffers = ValueSetting<Int>(
        "TOLLGATE_MAX_BUFFERS", .size((1 << 20)...(1 << 42)), default: "1GiB",
        "The memory that heads and bodies on their way may take, over all workers, as counted twice a second; beyond it new requests get 503 with `Retry-After`."
    )
    package let compressionCodings = ValueSetting<CompressionCodings>(
        "TOLLGATE_COMPRESS", OptionForm(plain: TypedText.codings) { OptionValue($0.text) }, default: "zstd br gzip",
        "The codings by which responses are compressed on routes whose `compress=` says so, the preferred first, or `off`. See [compression](compression.md)."
    )
    package let cacheSize = ValueSetting<Int>(
        "TOLLGATE_CACHE_SIZE", .size((1 << 20)...(1 << 42)), default: "64MiB",
        "The memory for responses that routes with `cache=` keep, over all workers, with their heads and keys. One response takes at most an eighth of a worker's part, and 8 MiB."
    )
    package let dnsRefreshMilliseconds = ValueSetting<UInt32>(
        "TOLLGATE_DNS_REFRESH", .duration(1_000...86_400_000), default: "30s",
        "How often names of upstreams are looked up; after a failure it is tried again within 5 s, and the last known addresses stay in use."
    )
    package let http2Streams = ValueSetting<Int>(
        "TOLLGATE_HTTP2_STREAMS", .count(1...1_000), default: "100",
        "The maximum number of requests under way on one HTTP/2 connection of a client; further ones are refused and may be tried again.")
    package let http2StreamWindow = ValueSetting<Int>(
        "TOLLGATE_HTTP2_STREAM_WINDOW", .size(65_536...(16 << 20)), default: "512KiB",
        "The maximum window of one HTTP/2 upload. It begins with 64 KiB and grows while the upstream keeps up; twice this in a round trip is the fastest upload."
    )
    package let http2ConnectionWindow = ValueSetting<Int>(
        "TOLLGATE_HTTP2_CONNECTION_WINDOW", .size(65_536...(64 << 20)), default: "1MiB",
        "The window of all uploads of an HTTP/2 connection. At most twice this is held for slow upstreams, in memory.")
    package let logLevel = ValueSetting<LogLevel>(
        "TOLLGATE_LOG", .choice(LogLevel.allCases) { $0.text.description }, default: "info",
        "The minimum level of the log on standard error.")
    package let accessLog = ValueSetting<AccessLogFormat>(
        "TOLLGATE_ACCESS_LOG", .choice(AccessLogFormat.allCases, \.rawValue), default: "json", restart: true,
        "The format of the access log on standard output, one line for each request.")
    package let databaseSchema = ValueSetting<String>(
        "TOLLGATE_DATABASE_SCHEMA", .plain(TypedText.schemaName), default: "tollgate", restart: true,
        "The schema of PostgreSQL in which a new installation keeps its tables; it is made if it is missing. With the default an older installation, which has its tables in the default search path, stays where it is."
    )
    package let mustConfirmEmail = ValueSetting<Bool>(
        "TOLLGATE_REQUIRE_CONFIRMED_EMAIL", .flag([("false", false), ("true", true)]), default: "false",
        "Whether an account of the `dlauth` contract gets a session only once its email is verified.")
    package let refreshGraceSeconds = ValueSetting<Int64>(
        "TOLLGATE_REFRESH_GRACE", .duration(0...600_000, unit: 1_000), default: "30s",
        "The time for which a used refresh token still returns its successor after the successor has been used.")
    package let contactAgeSeconds = ValueSetting<Int64>(
        "TOLLGATE_CONTACT_AGE", .duration(0...2_678_400_000, unit: 1_000), default: "7d",
        "How long a sign-in by a password, email, phone, identity or passkey that a session has set counts as old as that session's own, up to 31 days; then it is a new one for routes with `max-age=`. See [the age of a sign-in](identity.md#the-age-of-a-sign-in)."
    )
    package let signUpLimit = ValueSetting<LimitRate>(
        "TOLLGATE_SIGNUP_LIMIT", .rate, default: "300/h+burst=100",
        "The rate of sign-ups from one client address (IPv6: from one /64), over all contracts.")
    package let smsBudget = ValueSetting<LimitRate>(
        "TOLLGATE_SMS_BUDGET", .rate, default: "1000/h",
        "The rate of SMS over all gateways that share a Redis; beyond it a request for one gets 429, and the log has a warning.")
    package let tierGraceSeconds = ValueSetting<Int64>(
        "TOLLGATE_TIER_GRACE", .duration(0...2_678_400_000, unit: 1_000), default: "0s",
        "The time for which a tier stays in force after its end (`until`), for subscriptions that renew late; up to 31 days.")
    package let purchasesPath = ValueSetting<String>(
        "TOLLGATE_PURCHASES", .text, shown: "`/purchases` as soon as a product or a store is set",
        "The base path of the endpoints of [purchases](purchases.md).")
    package let transfersPurchases = ValueSetting<Bool>(
        "TOLLGATE_PURCHASE_TRANSFER", .flag(), default: "off",
        "Whether a purchase that an account has claimed moves to another one that claims it, and the first loses its tier. A purchase that names its account itself never moves."
    )
    package let hasConsoleOnMain = ValueSetting<Bool>(
        "TOLLGATE_CONSOLE_ON_MAIN", .flag([("false", false), ("true", true)]), default: "false",
        "Whether the console and the admin API are served on the main listeners, too, under addresses, `localhost`, the host of `TOLLGATE_PUBLIC_URL` and the names in `TOLLGATE_ADMIN_HOSTS`."
    )
    package let mailFrom = ValueSetting<String>(
        "TOLLGATE_MAIL_FROM", .text, "The sender of mails, `Example <no-reply@example.org>`. Needed with `SMTP_URL`.")
    package let appName = ValueSetting<String>(
        "TOLLGATE_APP_NAME", .text, shown: "the name in `TOLLGATE_MAIL_FROM`, else the host of `TOLLGATE_PUBLIC_URL`",
        "The name of the app in mails and SMS, in [authenticator apps](second-factor.md), and at [passkeys](passkeys.md) without `rp-name=`."
    )
}

/// The other settings, each with its property of `Configuration`, and the order of reading and of the reference.
extension Setting {
    package static let listen = Setting(
        "TOLLGATE_LISTEN", .listeners(\.listeners, allowing: [.proxy, .h2c, .redirect]), default: "127.0.0.1:8000", restart: true,
        "Addresses for plain HTTP, separated by spaces: `127.0.0.1:8000`, `[::1]:8000` or `unix:/path`; a `;proxy` after one requires the PROXY protocol, a `;h2c` allows HTTP/2 by prior knowledge; a `;redirect` leads each request to HTTPS (308), at the port of the first TLS address or, `;redirect=443`, another. Empty for none."
    )
    package static let listenTLS = Setting(
        "TOLLGATE_LISTEN_TLS", .listeners(\.tlsListeners, allowing: [.proxy]), restart: true,
        "Addresses for HTTPS, with `;proxy` as above; HTTP/2 is negotiated. Needs `TOLLGATE_TLS_CERT` and `TOLLGATE_TLS_KEY`, or `TOLLGATE_ACME`."
    )
    package static let tlsCert = Setting(
        "TOLLGATE_TLS_CERT", .certificates,
        "PEM files with a certificate and its chain, one for each host name (chosen by SNI; the first is the default). A changed file is reloaded without a restart."
    )
    package static let tlsKey = Setting(
        "TOLLGATE_TLS_KEY", .readByAnotherRow.emptyIsNone, "PEM files with the private keys, in the order of `TOLLGATE_TLS_CERT`.")
    package static let strictTransport = Setting(
        "TOLLGATE_HSTS", .value(ifSet: \.strictTransport, .plain(TypedText.strictTransport)),
        "`Strict-Transport-Security` of every response over TLS, in place of upstreams' own: how long browsers use HTTPS alone, like `180d`; `180d,subdomains` also for all subdomains, `365d,subdomains,preload` also by their built-in lists."
    )
    package static let adminListen = Setting(
        "TOLLGATE_ADMIN_LISTEN", .listeners(\.adminListeners, allowing: []), default: "127.0.0.1:9090", restart: true,
        "Addresses for `/livez`, `/readyz`, `/metrics` and the admin API. Empty for none.")
    package static let checkListen = Setting(
        "TOLLGATE_CHECK_LISTEN", .listeners(\.checkListeners, allowing: [.proxy, .h2c]), restart: true,
        "Addresses for forward-auth, with `;proxy` and `;h2c` as above: proxies that you trust ask there whether a request may pass. See [forward-auth](forward-auth.md)."
    )
    package static let adminToken = Setting(
        "TOLLGATE_ADMIN_TOKEN", .secret(\.adminToken), shown: "generated, printed once", secret: true,
        "The bearer token of the admin API. A generated one is kept in `TOLLGATE_DATA_DIR`.")
    package static let scopedAdminToken = Setting(
        "TOLLGATE_ADMIN_TOKEN_", .lines(\.scopedAdminTokens),
        "A further token of the admin API, for one program: `token-file=F scope=users:read,tier` opens only what its scopes name (`users:read`, `users:write`, `tier`, `sessions`, `delete`, `gateway:read`); the audit log has the name. See [the admin API](admin-api.md#tokens-with-scopes)."
    )
    package static let adminHosts = Setting(
        "TOLLGATE_ADMIN_HOSTS", .words(\.adminHosts, TypedText.hostName), shown: "addresses and `localhost`",
        "Further host names that the admin listener accepts; a request for any other name gets 421, except at `/livez`, `/readyz` and `/metrics`."
    )
    package static let workers = Setting(
        "TOLLGATE_WORKERS", .value(ifSet: \.workers, .count(1...1024)), shown: "cores", restart: true,
        "The number of event loops, each on its own thread.")
    package static let jwtSecret = Setting(
        "TOLLGATE_JWT_SECRET", .secret(\.jwtSecret), secret: true,
        "Signs own tokens with HS256 and this shared secret, 32 bytes or more, in place of generated keys.")
    package static let tiers = Setting(
        "TOLLGATE_TIERS", .tiers, default: "free premium", "The tiers in ascending order; the first is the default.")
    package static let scopes = Setting(
        "TOLLGATE_SCOPES", .scopes,
        "The scopes of the gateway's own users by their tier as it is now, for routes with `scope=`: `free=feed:read premium=feed:read,feed:write`. A tier has only what it names, and none if it is left out."
    )
    package static let trust = Setting(
        "TOLLGATE_TRUST_", .lines(\.trusts),
        "An outside issuer: `issuer=URL audience=A jwks=URL-or-file algorithms=RS256,ES256`, or `secret-file=F algorithms=HS256`; then `user-claim=sub tier-claim=tier tier-from=claim tier-url=URL tier-max-age=60s email-claim=email max-lifetime=7d refresh=URL refresh-contract=password`, and `accounts=on` lets its subjects be imported accounts, whose sessions go on. Without `issuer=` it matches only tokens without `iss`; only `audience=any` accepts any `aud`."
    )
    package static let upstream = Setting(
        "TOLLGATE_UPSTREAM_", .lines(\.upstreams),
        "One or more base URLs (`http://`, `https://`, `srv+http://` and `srv+https://` with a name that has DNS SRV records, `unix:/path`), then `key=value …`: `tollgate help routes` lists the keys with their defaults, [upstreams](upstreams.md) explains them."
    )
    package static let route = Setting(
        "TOLLGATE_ROUTE_", .lines(\.routes),
        "`[METHODS] [HOST]/PATH upstream=NAME key=value …`; `tollgate help routes` lists the keys.")
    package static let resource = Setting(
        "TOLLGATE_RESOURCE_", .lines(\.resources),
        "A protected resource (RFC 9728) for clients that find their authorization server by themselves, such as those of MCP: `path=/mcp scopes=mcp:read issuers=NAME`. Routes at the path and below take only tokens of these trust lines whose audience is its URL under `TOLLGATE_PUBLIC_URL`. See [scopes](scopes.md#resources)."
    )
    package static let internalCaller = Setting(
        "TOLLGATE_INTERNAL_", .lines(\.internals),
        "An internal caller for `auth=internal` and transparent refresh, identified by `key-sha256=HEX`, `cidr=10.0.0.0/8` and/or `cert-san=spiffe://…`; all that are given must match."
    )
    package static let versionGate = Setting(
        "TOLLGATE_VERSION_GATE_", .lines(\.versionGates),
        "A floor for the versions of an app on routes with `app=`: `header=X-App-Version min=4.2 warn=4.5 url=URL platform=FIELD:VALUE`; of several, in the order of their names, the first counts whose platform the request has. See [apps](apps.md)."
    )
    package static let trustedProxies = Setting(
        "TOLLGATE_TRUSTED_PROXIES", .words(\.trustedProxies, TypedText.network).emptyIsNone,
        "Networks of proxies whose `X-Forwarded-For`, `Forwarded` and `X-Request-Id` are trusted. `0.0.0.0/0` or `::/0` would let every client name its own address, of which `check` warns."
    )
    package static let denyFrom = Setting(
        "TOLLGATE_DENY_FROM", .networks(\.denyFrom),
        "Networks whose requests are refused with 403 `ADDRESS_DENIED` on every route and endpoint, and files of them, `10.0.0.0/8 file:blocked.txt`. See [operations](operations.md#lists-of-addresses)."
    )
    package static let redisURL = Setting(
        "REDIS_URL", .secretText(\.redisURL), shown: "counters in process", secret: true, restart: true,
        "The Redis in which several gateways share their limits: `redis://[user][:password]@host[:port][/database]`, `rediss://` with TLS, or `unix:/path?db=0`; `redis+cluster://[user][:password]@host[:port],host[:port]` names some nodes of a Redis Cluster; `redis+sentinel://[user][:password]@sentinel,sentinel/master-name[/database]` follows the primary that the sentinels name."
    )
    package static let upgradeURL = Setting(
        "TOLLGATE_UPGRADE_URL", .value(ifSet: \.upgradeURL, .url), "The page where a caller whose tier was too low can upgrade.")
    package static let cors = Setting(
        "TOLLGATE_CORS", .cors, shown: "`off`",
        "The origins whose pages may call routes without `cors=`, the contracts, and paths without a route: `https://app.example.org`, `https://*.example.org` for every subdomain, or `*`."
    )

    package static let tlsClientCA = Setting(
        "TOLLGATE_TLS_CLIENT_CA", .oneFile(\.tlsClientAuthority),
        "PEM file of the CA of internal callers (mTLS): a client certificate is requested but optional, and must chain to this CA. A changed file is reloaded without a restart."
    )
    package static let tlsClientCRL = Setting(
        "TOLLGATE_TLS_CLIENT_CRL", .files(\.tlsRevocationLists),
        "Files with lists of revoked client certificates (CRLs), PEM or DER, separated by spaces; a changed file is reloaded without a restart. A CA of `TOLLGATE_TLS_CLIENT_CA` without a list is not checked; while a list has expired, no certificate of its CA passes."
    )
    package static let keySecret = Setting(
        "TOLLGATE_KEY_SECRET", .secret(\.keySecret), secret: true, restart: true,
        "A secret of 32 bytes or more that several gateways share. It seals the signing keys in PostgreSQL, keys the hashes of limits in Redis, and authenticates the gateways' messages there."
    )
    package static let smtpURL = Setting(
        "SMTP_URL", .secretText(\.smtpURL), shown: "development outbox", secret: true,
        "The mail server: `smtps://user:password@host:465` (implicit TLS) or `smtp://user:password@host:587` (STARTTLS if offered; required if a password would leave the machine). `?tls-ca=FILE` trusts the CAs in that file, in place of the system's. Without it mail goes to the outbox that `tollgate outbox` prints."
    )
    package static let smsURL = Setting(
        "TOLLGATE_SMS_URL", .secretURL(\.smsURL), shown: "development outbox", secret: true,
        "The HTTP webhook that sends SMS: a `POST` with `{\"to\",\"text\"}`; any 2xx is success.")
    package static let resetURL = Setting(
        "TOLLGATE_RESET_URL", .value(ifSet: \.resetURL, .plain(TypedText.linkURL)),
        "The link in a reset mail, of the web or of an app's scheme (`myapp://reset`), to which `token` is appended, or which has an empty `token=` in its query. Without it the mail contains the bare token."
    )

    package static let mailTemplates = Setting(
        "TOLLGATE_MAIL_TEMPLATES", .value(ifSet: \.mailTemplates, .path),
        "A folder with texts of mails and SMS in place of the gateway's own in English and German: a folder for each language (`fr`, `pt-br`; `default` for readers of other languages) with `NAME.txt` and `NAME.html`. See [accounts](accounts.md#mails-and-their-languages). `check` renders each."
    )
    package static let smsDomain = Setting(
        "TOLLGATE_SMS_DOMAIN", .value(ifSet: \.smsDomain, .plain(TypedText.hostName)),
        "The domain of the web page or app that asks for codes: SMS end in a line like `@example.org #123456`, by which iOS and browsers fill the code in there and nowhere else."
    )
    package static let smsAppHash = Setting(
        "TOLLGATE_SMS_APP_HASH", .value(ifSet: \.smsAppHash, .plain(TypedText.appHash)),
        "The hash of the Android app, 11 characters, by which the SMS Retriever hands SMS with codes to it.")
    package static let notices = Setting(
        "TOLLGATE_NOTICES", .words(\.notices, allowingCommas: true, TypedText.noticeTopic).emptyIsNone,
        "The changes of an account of which its user is told by mail, separated by commas or spaces: `new-device` (a sign-in on a device that the account was not used on before), `password` (also a provider that is linked or unlinked), `email` (also a phone; also to the address before, with a way back for 72 h, which needs `TOLLGATE_ACCOUNT`), `passkey` (added, removed, or perhaps copied), `factor` (a [second factor](second-factor.md) that is set up or removed). See [accounts](accounts.md#notices)."
    )
    package static let compressionTypes = Setting(
        "TOLLGATE_COMPRESS_TYPES", .words(\.compressionTypes, TypedText.mediaType).emptyIsNone,
        "Further media types of responses to compress, such as `application/wasm`, separated by spaces.")

    private static let plain = PlainSettings.rows

    package static let all: [Setting] =
        [
            listen, listenTLS, tlsCert, tlsKey, strictTransport, adminListen, checkListen, adminToken, scopedAdminToken, adminHosts,
            workers,
            plain.dataDirectory.row, plain.publicURL.row, plain.issuer.row, plain.audience.row, jwtSecret, plain.signingAlgorithm.row,
            plain.clockSkewSeconds.row, plain.asksForNonces.row, tiers, scopes, trust, upstream, route, resource, internalCaller,
            versionGate, trustedProxies,
            denyFrom,
            redisURL,
            plain.rateLimitFailure.row,
            plain.redisTimeoutMilliseconds.row, plain.tokenCacheEntries.row, contracts, dlauthPath, provider, account, deletion, appleKey,
            events, signUpHook,
            plain.purchasesPath.row,
            product,
            appleStore, googleStore, stripeStore, revenueCatStore, plain.transfersPurchases.row, databaseURL,
            databaseDirectURL,
            ownDatabaseURL, ownDatabaseDirectURL, plain.databaseSchema.row, plain.mustConfirmEmail.row, maxSessions, factor,
            plain.signUpLimit.row, accessLifetime, refreshLifetime, deviceKey, plain.refreshGraceSeconds.row, plain.contactAgeSeconds.row,
            plain.tierGraceSeconds.row,
            plain.headerTimeoutMilliseconds.row, plain.bodyTimeoutMilliseconds.row, plain.bodyRate.row, plain.cancelsOnHalfClose.row,
            plain.sendTimeoutMilliseconds.row, plain.idleTimeoutMilliseconds.row, plain.drainTimeoutMilliseconds.row,
            plain.maxConnections.row, plain.maxRequests.row, plain.maxLocalRequests.row, plain.maxBuffers.row, plain.clientShare.row,
            plain.compressionCodings.row, compressionTypes, plain.cacheSize.row,
            plain.dnsRefreshMilliseconds.row, plain.http2Streams.row, plain.http2StreamWindow.row, plain.http2ConnectionWindow.row,
            upgradeURL, cors, plain.logLevel.row, plain.accessLog.row, smtpURL, plain.mailFrom.row, plain.appName.row, smsURL,
            plain.smsBudget.row, smsDomain, smsAppHash, resetURL, mailTemplates, notices, tlsClientCA, tlsClientCRL,
            plain.hasConsoleOnMain.row,
            keySecret,
        ] + certificates + traces + passkeys + attestations
}
