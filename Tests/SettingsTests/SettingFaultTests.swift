import Gate
import Storage
import Testing
import Wire

@testable import Settings
@testable import tollgate

/// A line as an operator might write it, and just what `tollgate check` says of it.
@Suite struct SettingFaultTests {
    static let table: [(String, [String])] = [
        ("TOLLGATE_LISTN=x", ["a.env:1: TOLLGATE_LISTN: is no setting, the nearest is TOLLGATE_LISTEN"]),
        ("TOLLGATE_WORKERS=many", [#"a.env:1: TOLLGATE_WORKERS: "many" is no whole number, write one from 1 to 1024"#]),
        ("TOLLGATE_WORKERS=0", [#"a.env:1: TOLLGATE_WORKERS: "0" is out of range, write a number from 1 to 1024"#]),
        ("TOLLGATE_CLIENT_SHARE=0%", [#"a.env:1: TOLLGATE_CLIENT_SHARE: "0%" is out of range, write a percentage from 1% to 100%"#]),
        ("TOLLGATE_CLIENT_SHARE=101%", [#"a.env:1: TOLLGATE_CLIENT_SHARE: "101%" is out of range, write a percentage from 1% to 100%"#]),
        ("TOLLGATE_CLIENT_SHARE=80", [#"a.env:1: TOLLGATE_CLIENT_SHARE: "80" is no percentage, write one from 1% to 100%"#]),
        ("TOLLGATE_MAX_SESSIONS=0", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "0" is out of range, write a number from 1 to 100000"#]),
        ("TOLLGATE_MAX_SESSIONS=free:5,premium:x", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "free:5,premium:x" is no whole number, write one from 1 to 100000"#]),
        ("TOLLGATE_MAX_SESSIONS=free:5,gold:9", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "free:5,gold:9" has a part that names no tier, write TIER:NUMBER with one of free, premium"#]),
        ("TOLLGATE_MAX_SESSIONS=free:5,9", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "free:5,9" has a part that names no tier, write TIER:NUMBER with one of free, premium"#]),
        ("TOLLGATE_MAX_SESSIONS=free:5,free:6", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "free:5,free:6" names the tier free twice, keep one of them"#]),
        ("TOLLGATE_MAX_SESSIONS=premium:5", [#"a.env:1: TOLLGATE_MAX_SESSIONS: "premium:5" leaves out free, the lowest tier, name it too"#]),
        ("TOLLGATE_WORKERS=-1", [#"a.env:1: TOLLGATE_WORKERS: "-1" is no whole number, write one from 1 to 1024"#]),
        ("TOLLGATE_CLOCK_SKEW=30", [#"a.env:1: TOLLGATE_CLOCK_SKEW: "30" is no duration, write one like 500ms, 10s, 5m, 24h or 30d"#]),
        ("TOLLGATE_CLOCK_SKEW=1h", [#"a.env:1: TOLLGATE_CLOCK_SKEW: "1h" is out of range, write a duration from 0ms to 10m"#]),
        ("TOLLGATE_HTTP2_STREAM_WINDOW=much", [#"a.env:1: TOLLGATE_HTTP2_STREAM_WINDOW: "much" is no size, write one like 512, 64KiB or 10MiB"#]),
        ("TOLLGATE_HTTP2_STREAM_WINDOW=64B", [#"a.env:1: TOLLGATE_HTTP2_STREAM_WINDOW: "64B" is out of range, write a size from 64KiB to 16MiB"#]),
        ("TOLLGATE_LOG=loud", [#"a.env:1: TOLLGATE_LOG: "loud" is not known, write debug, info, warning or error"#]),
        ("TOLLGATE_ACCESS_LOG=on", [#"a.env:1: TOLLGATE_ACCESS_LOG: "on" is not known, write json, text or off"#]),
        ("TOLLGATE_SIGNING_ALGORITHM=none", [#"a.env:1: TOLLGATE_SIGNING_ALGORITHM: "none" is not known, write ES256, EdDSA, RS256 or HS256"#]),
        ("TOLLGATE_PUBLIC_URL=example.org", [#"a.env:1: TOLLGATE_PUBLIC_URL: "example.org" is no URL, write one like https://example.org/path"#]),
        ("TOLLGATE_UPGRADE_URL='https://a b'", [#"a.env:1: TOLLGATE_UPGRADE_URL: "https://a b" contains characters that no URL has, percent-encode them"#]),
        ("TOLLGATE_UPGRADE_URL=https://me:pw@h/", [#"a.env:1: TOLLGATE_UPGRADE_URL: "https://***@h/" carries a user or a password, remove the part before the @"#]),
        ("TOLLGATE_TRUSTED_PROXIES=10.0.0.0/33", [#"a.env:1: TOLLGATE_TRUSTED_PROXIES: "10.0.0.0/33" is no network, write one like 10.0.0.0/8 or fd00::/8"#]),
        ("TOLLGATE_LISTEN=8000", [#"a.env:1: TOLLGATE_LISTEN: "8000" is no address to listen on, write one like 127.0.0.1:8000, [::1]:8000 or unix:/path"#]),
        ("TOLLGATE_LISTEN=127.0.0.1:8000;prox", [#"a.env:1: TOLLGATE_LISTEN: "127.0.0.1:8000;prox" has an unknown part after the ;, write ;proxy, ;h2c or nothing"#]),
        ("TOLLGATE_LISTEN=127.0.0.1:8000;h2c;h2c", [#"a.env:1: TOLLGATE_LISTEN: "127.0.0.1:8000;h2c;h2c" has ;h2c twice, keep one of them"#]),
        ("TOLLGATE_ADMIN_LISTEN=127.0.0.1:9;h2c", [#"a.env:1: TOLLGATE_ADMIN_LISTEN: "127.0.0.1:9;h2c" has no HTTP/2 by prior knowledge, remove ;h2c (with TLS, HTTP/2 is negotiated)"#]),
        ("TOLLGATE_LISTEN=127.0.0.1:8000 127.0.0.1:8000", [#"a.env:1: TOLLGATE_LISTEN: "127.0.0.1:8000" is given twice, keep one of them"#]),
        ("TOLLGATE_LISTEN=", ["a.env:1: TOLLGATE_LISTEN: leaves no address to listen on, set it or TOLLGATE_LISTEN_TLS, like 127.0.0.1:8000"]),
        ("TOLLGATE_ADMIN_LISTEN=127.0.0.1:9;proxy", [#"a.env:1: TOLLGATE_ADMIN_LISTEN: "127.0.0.1:9;proxy" cannot take the PROXY protocol, remove ;proxy"#]),
        ("TOLLGATE_ADMIN_LISTEN=127.0.0.1:8000", ["a.env:1: TOLLGATE_ADMIN_LISTEN: 127.0.0.1:8000 is already used by TOLLGATE_LISTEN, give it an address of its own"]),
        ("TOLLGATE_CHECK_LISTEN=127.0.0.1:8000;h2c", ["a.env:1: TOLLGATE_CHECK_LISTEN: 127.0.0.1:8000 is already used by TOLLGATE_LISTEN, give it an address of its own"]),
        ("TOLLGATE_CHECK_LISTEN=8001", [#"a.env:1: TOLLGATE_CHECK_LISTEN: "8001" is no address to listen on, write one like 127.0.0.1:8000, [::1]:8000 or unix:/path"#]),
        ("TOLLGATE_LISTEN_TLS=127.0.0.1:8443", ["a.env:1: TOLLGATE_LISTEN_TLS: needs a certificate, set TOLLGATE_TLS_CERT and TOLLGATE_TLS_KEY"]),
        ("TOLLGATE_TLS_CERT=a.pem", ["a.env:1: TOLLGATE_TLS_CERT: has no key beside it, set TOLLGATE_TLS_KEY"]),
        ("TOLLGATE_TLS_CERT=a.pem b.pem\nTOLLGATE_TLS_KEY=a.key", ["a.env:2: TOLLGATE_TLS_KEY: names 1 file and TOLLGATE_TLS_CERT 2 files, give one key for each certificate"]),
        ("TOLLGATE_ADMIN_TOKEN='a b'", ["a.env:1: TOLLGATE_ADMIN_TOKEN: contains characters that a bearer token must not, use visible ASCII characters without spaces"]),
        ("TOLLGATE_ADMIN_TOKEN_CI='c2VjcmV0LW9mLXRoZS1vcGVyYXRvcg=='", ["a.env:1: TOLLGATE_ADMIN_TOKEN_CI: has a part that is no option, write token-file=FILE scope=SCOPE,SCOPE"]),
        ("TOLLGATE_ADMIN_TOKEN_CI='token-file=gone scope=tier,keys'", [#"a.env:1: TOLLGATE_ADMIN_TOKEN_CI: "scope=tier,keys" is not known, write users:read, users:write, tier, sessions, delete or gateway:read"#, #"a.env:1: TOLLGATE_ADMIN_TOKEN_CI: "token-file=gone" names a file that cannot be read (no such file or directory), give the path of a readable file"#]),
        ("TOLLGATE_ADMIN_TOKEN_CI='scope=tier'", ["a.env:1: TOLLGATE_ADMIN_TOKEN_CI: has no token, write token-file= with the path of a file that holds it"]),
        ("TOLLGATE_ADMIN_TOKEN_CI='token-file=gone'", ["a.env:1: TOLLGATE_ADMIN_TOKEN_CI: has no scope, write scope= with one of users:read, users:write, tier, sessions, delete, gateway:read, or several separated by commas", #"a.env:1: TOLLGATE_ADMIN_TOKEN_CI: "token-file=gone" names a file that cannot be read (no such file or directory), give the path of a readable file"#]),
        ("TOLLGATE_ADMIN_HOSTS='gate.example.org:9090'", [#"a.env:1: TOLLGATE_ADMIN_HOSTS: "gate.example.org:9090" is no host name, write one like gateway.example.org, without a port"#]),
        ("TOLLGATE_ADMIN_HOSTS='*.example.org a..b'", [#"a.env:1: TOLLGATE_ADMIN_HOSTS: "*.example.org" is no host name, write one like gateway.example.org, without a port"#, #"a.env:1: TOLLGATE_ADMIN_HOSTS: "a..b" is no host name, write one like gateway.example.org, without a port"#]),
        ("TOLLGATE_JWT_SECRET=short", ["a.env:1: TOLLGATE_JWT_SECRET: is no usable secret (the shared secret has 5 bytes, but a shared secret needs at least 32), give 32 random bytes or more"]),
        ("TOLLGATE_SIGNING_ALGORITHM=RS256\nTOLLGATE_JWT_SECRET=0123456789abcdef0123456789abcdef", ["a.env:1: TOLLGATE_SIGNING_ALGORITHM: does not go with TOLLGATE_JWT_SECRET, which signs with HS256, remove one of them"]),
        ("TOLLGATE_JWT_SECRET=0123456789abcdef0123456789abcdef\nTOLLGATE_ROUTE_S=\"/s upstream=u identity=signed\"", ["a.env:2: TOLLGATE_ROUTE_S: has identity=signed, which needs a key pair: with TOLLGATE_JWT_SECRET an upstream that could verify the identity could also sign tokens of any user; remove TOLLGATE_JWT_SECRET, or identity=signed"]),
        ("TOLLGATE_SIGNING_ALGORITHM=HS256\nTOLLGATE_ROUTE_S=\"/s upstream=u identity=signed\"", ["a.env:2: TOLLGATE_ROUTE_S: has identity=signed, which needs a key pair: with TOLLGATE_SIGNING_ALGORITHM=HS256 an upstream that could verify the identity could also sign tokens of any user; remove TOLLGATE_SIGNING_ALGORITHM=HS256, or identity=signed"]),
        ("TOLLGATE_JWT_SECRET_FILE=gone", ["a.env:1: TOLLGATE_JWT_SECRET_FILE: names a file that cannot be read (no such file or directory), give the path of a readable file"]),
        ("TOLLGATE_ROUTE_my-route=x", ["a.env:1: is no setting, write NAME=value or begin a comment with #"]),
        ("TOLLGATE_ROUTE_small=/x", ["a.env:1: TOLLGATE_ROUTE_small: has a name with more than capitals, digits and _, write one like TOLLGATE_ROUTE_MY_API"]),
        ("TOLLGATE_TIERS=free free", [#"a.env:1: TOLLGATE_TIERS: the tier "free" is named twice, reserved, or not made of letters, digits, - and _"#]),
        ("OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", [#"a.env:1: OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" is no URL, write one like https://example.org/path"#]),
        ("OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318", [#"a.env:1: OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not spoken here, write http/json; collectors take it where they take http/protobuf, at port 4318"#]),
        ("OTEL_EXPORTER_OTLP_HEADERS=authorization=secret,x", ["a.env:1: OTEL_EXPORTER_OTLP_HEADERS: has a part 2 that is no name=value, write name=value,name=value"]),
        ("OTEL_EXPORTER_OTLP_HEADERS=authorization=secret%0D%0Ax", ["a.env:1: OTEL_EXPORTER_OTLP_HEADERS: has a name or a value that no field of HTTP has, write like authorization=Bearer%20KEY"]),
        ("OTEL_EXPORTER_OTLP_TIMEOUT=10s", [#"a.env:1: OTEL_EXPORTER_OTLP_TIMEOUT: "10s" is no whole number, write one from 1 to 600000"#]),
        ("OTEL_RESOURCE_ATTRIBUTES=a=%2", ["a.env:1: OTEL_RESOURCE_ATTRIBUTES: has a % in its part 1 that is not followed by two hexadecimal digits, write %25 for a %"]),
        ("OTEL_TRACES_SAMPLER=jaeger_remote", [#"a.env:1: OTEL_TRACES_SAMPLER: "jaeger_remote" is not known, write always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio"#]),
        ("OTEL_TRACES_SAMPLER_ARG=1%", [#"a.env:1: OTEL_TRACES_SAMPLER_ARG: "1%" is no share, write one from 0 to 1, like 0.01"#]),
        ("REDIS_URL=http://h", ["a.env:1: REDIS_URL: is no URL of a Redis, it must begin with redis://, redis+cluster://, redis+sentinel://, the same with rediss (TLS), or unix: (a socket's path), as in redis://127.0.0.1:6379/0"]),
        ("REDIS_URL=redis+cluster://h/1", ["a.env:1: REDIS_URL: is no URL of a Redis, a cluster has only database 0, as in redis+cluster://a:6379,b:6379"]),
        ("SMTP_URL=mail.example.org", ["a.env:1: SMTP_URL: is no mail server, write one like smtps://user:password@mail.example.org:465"]),
        ("SMTP_URL=smtps://h", ["a.env:1: SMTP_URL: has no sender beside it, set TOLLGATE_MAIL_FROM like Example <no-reply@example.org>"]),
        ("TOLLGATE_MAIL_FROM=Example", [#"a.env:1: TOLLGATE_MAIL_FROM: "Example" is no sender, write one like no-reply@example.org or Example <no-reply@example.org>"#]),
        ("TOLLGATE_SMS_URL=sms.example.org", ["a.env:1: TOLLGATE_SMS_URL: is no URL, write one like https://example.org/path"]),
        ("DATABASE_URL=mysql://me:secret@h/db", ["a.env:1: DATABASE_URL: is neither postgres://user:password@host/database nor sqlite:///path/to/file"]),
        ("DATABASE_URL=sqlite://accounts.db", ["a.env:1: DATABASE_URL: names no file; write sqlite:///path/to/file, with three slashes"]),
        ("TOLLGATE_CONTRACTS=password", [#"a.env:1: TOLLGATE_CONTRACTS: "password" is no mount, write id@base, like password@/api/v1"#]),
        ("TOLLGATE_CONTRACTS=passwords@/", [#"a.env:1: TOLLGATE_CONTRACTS: "passwords@/" names no contract, the contracts are provider, password, apple, dlauth, anonymous"#]),
        ("TOLLGATE_CONTRACTS='password@/a provider@/a'", ["a.env:1: TOLLGATE_CONTRACTS: password@/a and provider@/a both answer POST /a/auth/refresh, mount one of them elsewhere"]),
        ("TOLLGATE_DLAUTH_PATH_SIGNUP=/x", ["a.env:1: TOLLGATE_DLAUTH_PATH_SIGNUP: is the path of no endpoint, the nearest is TOLLGATE_DLAUTH_PATH_SIGN_UP"]),
        ("TOLLGATE_DLAUTH_PATH_USER=user", [#"a.env:1: TOLLGATE_DLAUTH_PATH_USER: "user" is no path, write one like /api/v1/auth/register"#]),
        ("TOLLGATE_PROVIDER_FACEBOOK=client-ids=a", ["a.env:1: TOLLGATE_PROVIDER_FACEBOOK: names no provider, the providers are APPLE and GOOGLE"]),
        ("TOLLGATE_PROVIDER_APPLE='issuer=https://i.test'", ["a.env:1: TOLLGATE_PROVIDER_APPLE: needs the apps whose tokens are accepted, write client-ids=com.example.app, separated by commas"]),
        ("TOLLGATE_SIGNUP_LIMIT=300", [#"a.env:1: TOLLGATE_SIGNUP_LIMIT: "300" is no rate, write one like 300/h or 300/h+burst=100"#]),
        ("TOLLGATE_SIGNUP_LIMIT=0/h", [#"a.env:1: TOLLGATE_SIGNUP_LIMIT: "0/h" is no rate, write one like 300/h or 300/h+burst=100"#]),
        ("TOLLGATE_SMS_BUDGET=9/d+lease", [#"a.env:1: TOLLGATE_SMS_BUDGET: "9/d+lease" is no rate, write one like 300/h or 300/h+burst=100"#]),
        ("TOLLGATE_KEY_SECRET=x", ["a.env:1: TOLLGATE_KEY_SECRET: is easy to guess, give 32 random bytes or more"]),
        ("TOLLGATE_TLS_CLIENT_CA='a.pem b.pem'", ["a.env:1: TOLLGATE_TLS_CLIENT_CA: names 2 files, put all certificates into one"]),
        ("TOLLGATE_INTERNAL_BACKEND=key=x", [#"a.env:1: TOLLGATE_INTERNAL_BACKEND: "key" is no option here, the nearest is key-sha256"#]),
        ("TOLLGATE_INTERNAL_BACKEND=cert-san=spiffe://x", ["a.env:1: TOLLGATE_INTERNAL_BACKEND: has cert-san= and no authority to verify certificates by, set TOLLGATE_TLS_CLIENT_CA"]),
    ]

    @Test(arguments: table) func anInvalidSettingIsNamedWithAValidExample(_ text: String, _ messages: [String]) {
        #expect(faults(text + "\n" + oneRoute) == messages)
    }

    @Test func allFaultsAreReportedInReadingOrder() {
        let loaded = load(
            [("one.env", "TOLLGATE_WORKERS=x\nTOLLGATE_LOGG=info"), ("two.env", "\nTOLLGATE_LOG=x\n" + oneRoute)],
            environment: [("TOLLGATE_TOKEN_CACHE", "x")])
        #expect(
            loaded.findings.faults.map(\.text) == [
                #"one.env:1: TOLLGATE_WORKERS: "x" is no whole number, write one from 1 to 1024"#,
                "one.env:2: TOLLGATE_LOGG: is no setting, the nearest is TOLLGATE_LOG",
                #"two.env:2: TOLLGATE_LOG: "x" is not known, write debug, info, warning or error"#,
                #"environment: TOLLGATE_TOKEN_CACHE: "x" is no whole number, write one from 0 to 16777216"#,
            ])
        #expect(loaded.configuration == nil)
    }

    @Test func noFaultRepeatsASecret() {
        let secret = "p4ssw0rd-hunter2"
        let texts = [
            "TOLLGATE_JWT_SECRET=\(secret)", "TOLLGATE_ADMIN_TOKEN='\(secret) x'", "REDIS_URL=redis://:\(secret)@h:x",
            "DATABASE_URL=mysql://u:\(secret)@h/d", "SMTP_URL=smtp://u:\(secret)@h", "TOLLGATE_ADMIN_TOKEN_CI=\(secret)",
            "TOLLGATE_ADMIN_TOKEN_CI='\(secret)=='", "TOLLGATE_ADMIN_TOKEN_CI='token=\(secret) scope=tier'",
        ]
        for text in texts {
            let findings = load(text + "\n" + oneRoute).findings
            let said = (findings.faults + findings.warnings).map(\.text)
            #expect(!said.isEmpty)
            #expect(!said.joined().contains(secret), "\(said)")
        }
    }

    @Test func everySettingIsBuilt() {
        for setting in Setting.all { #expect(setting.stage == .built, "\(setting.name)") }
        #expect(warnings("TOLLGATE_CONSOLE_ON_MAIN=true\n" + oneRoute) == [])
        #expect(faults("TOLLGATE_CONSOLE_ON_MAIN=yes\n" + oneRoute).count == 1)
    }

    @Test func aSharedDatabaseWithoutAKeySecretIsAWarning() {
        let database = "DATABASE_URL=postgres://u@h/d\n"
        let secret = "TOLLGATE_KEY_SECRET=" + String(repeating: "s", count: 32) + "\n"
        let told = warnings(database + oneRoute)
        #expect(told.count == 1 && told[0].hasPrefix("a.env:1: DATABASE_URL: ") && told[0].contains("TOLLGATE_KEY_SECRET"), "\(told)")
        #expect(warnings(database + secret + oneRoute) == [])
        #expect(warnings(database + "TOLLGATE_JWT_SECRET=" + String(repeating: "j", count: 32) + "\n" + oneRoute) == [])
        #expect(warnings("DATABASE_URL=sqlite:///d\n" + oneRoute) == [])
        #expect(faults("TOLLGATE_KEY_SECRET=short\n" + oneRoute) == ["a.env:1: TOLLGATE_KEY_SECRET: is easy to guess, give 32 random bytes or more"])
        #expect(load(secret + oneRoute).partial.settings.signUpLimit.text == "300/h+burst=100")
        #expect(load(secret + "TOLLGATE_SMS_BUDGET=5/d\n" + oneRoute).partial.settings.smsBudget.text == "5/d")
        #expect(load(secret + "TOLLGATE_TIER_GRACE=3d\n" + oneRoute).partial.settings.tierGraceSeconds == 3 * 86_400)
    }

    @Test func theDatabaseOfTheLongerNameWins() {
        let settings = load("DATABASE_URL=mysql://django\nTOLLGATE_DATABASE_URL=sqlite:///own\nTOLLGATE_DATABASE_SCHEMA=second\n" + oneRoute).partial
        #expect(settings.database == .sqlite(path: "/own"))
        let direct = "TOLLGATE_KEY_SECRET=" + String(repeating: "s", count: 32) + "\nDATABASE_URL=postgres://a/d\nDATABASE_URL_DIRECT=sqlite:///x\n"
        let both = load(direct + "TOLLGATE_DATABASE_URL_DIRECT=postgres://b/d\nTOLLGATE_DATABASE_SCHEMA=second\n" + oneRoute)
        #expect(both.findings.faults.isEmpty && both.partial.directDatabase == .postgres(url: "postgres://b/d", schema: "second"))
        #expect(faults("TOLLGATE_DATABASE_URL=mysql://me\n" + oneRoute).first?.hasPrefix("a.env:1: TOLLGATE_DATABASE_URL: is neither") == true)
        let names = ["public", "pg_x", "Tollgate", "1a", "a\"b", "a.b", String(repeating: "a", count: 49)]
        #expect(names.allSatisfy { faults("TOLLGATE_DATABASE_SCHEMA='\($0)'\n" + oneRoute).count == 1 })
    }

    @Test func probableMistakesAreWarnings() {
        #expect(warnings("TOLGATE_LOG=info\n" + oneRoute) == ["a.env:1: TOLGATE_LOG: is no setting and is ignored, the nearest is TOLLGATE_LOG"])
        for (name, nearest) in [("REDIS_ULR", "REDIS_URL"), ("database_url", "DATABASE_URL"), ("SMTP_URL_FLE", "SMTP_URL_FILE"), ("OTEL_EXPORTER_OTLP_ENDPONT", "OTEL_EXPORTER_OTLP_ENDPOINT")] {
            #expect(warnings("\(name)=x\n" + oneRoute) == ["a.env:1: \(name): is no setting and is ignored, the nearest is \(nearest)"])
        }
        for other in ["REDIS_HOST", "DATABASE_USER", "OTEL_BLRP_SCHEDULE_DELAY", "OTEL_EXPORTER_OTLP_COMPRESSION", "URL", String(repeating: "X", count: 100_000)] {
            #expect(warnings("\(other)=x\n" + oneRoute) == [])
        }
        let check = "TOLLGATE_CHECK_LISTEN=127.0.0.1:8001\n"
        #expect(
            warnings(check + oneRoute) == [
                "a.env:1: TOLLGATE_CHECK_LISTEN: has no proxy in TOLLGATE_TRUSTED_PROXIES, every client counts as the proxy that asks: name the proxies' addresses there"
            ])
        #expect(warnings(check + "TOLLGATE_TRUSTED_PROXIES=127.0.0.1/32\n" + oneRoute) == [])
        for (networks, told) in [("10.0.0.0/8 0.0.0.0/0", ["0.0.0.0/0"]), ("10.0.0.1/0 ::/0", ["0.0.0.0/0", "::/0"]), ("::ffff:0:0/96", ["0.0.0.0/0"]), ("0.0.0.0/8 ::1", [])] {
            let right = "so every client is believed about the address it comes from: name the proxies' networks alone"
            #expect(
                warnings("TOLLGATE_TRUSTED_PROXIES=\"\(networks)\"\n" + oneRoute) == told.map {
                    "a.env:1: TOLLGATE_TRUSTED_PROXIES: contains all of \($0 == "::/0" ? "IPv6" : "IPv4") (\($0)), \(right)"
                })
        }
        #expect(warnings("TOLLGATE_ADMIN_TOKEN=admin\n" + oneRoute) == ["a.env:1: TOLLGATE_ADMIN_TOKEN: is easy to guess, use 16 characters or more"])
        #expect(warnings(oneRoute + "TOLLGATE_UPSTREAM_V=http://h") == ["a.env:3: TOLLGATE_UPSTREAM_V: is used by no route"])
        #expect(warnings("") == [])
        #expect(warnings("TOLLGATE_CONTRACTS=") == ["default: TOLLGATE_ROUTE_<NAME>: is not set, every request is answered 404"])
        #expect(warnings("PATH=/bin\nAPP_KEY=x\n" + oneRoute) == [])
    }

    @Test func aFileFullOfMistakesIsAnsweredInItsSize() {
        let bad = String(repeating: "no setting\n", count: 40_000)
        #expect(EnvFile.parse(Array(bad.utf8), name: "f").findings.faults.count == 40_000)
        let same = (0..<2_000).map { "TOLLGATE_ROUTE_R\($0)=\"/x upstream=u\"" }.joined(separator: "\n")
        #expect(faults("TOLLGATE_UPSTREAM_U=http://h\n" + same).count == 1_999)
    }

    /// Texts that look like settings, with bits flipped and pieces swapped: an answer always comes.
    @Test func noSettingsTrap() {
        var random = SplitMix64(seed: 0x5E77)
        let lines = (SettingFaultTests.table.map(\.0) + RouteLineTests.good.map { "TOLLGATE_ROUTE_X=\"\($0.0)\"" } + [oneRoute]).map { Array($0.utf8) }
        for _ in 0..<1500 {
            var text: [UInt8] = []
            for _ in 0..<Int.random(in: 1...5, using: &random) { text += (lines.randomElement(using: &random) ?? []) + [10] }
            for _ in 0..<Int.random(in: 0...6, using: &random) {
                let place = Int.random(in: 0..<text.count, using: &random)
                text[place] = Bool.random(using: &random) ? UInt8.random(in: 0...255, using: &random) : (text.randomElement(using: &random) ?? 0)
            }
            let loaded = load(text.rawBytes.text)
            #expect((loaded.configuration == nil) == !loaded.findings.faults.isEmpty)
        }
    }
}
