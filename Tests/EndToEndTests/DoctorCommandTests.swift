import Foundation
import TestServers
import TestThreads
import Testing

/// `tollgate doctor` against real deployments, good and bad.
@Suite(.ownThread) struct DoctorCommandTests {
    private struct Finding: Equatable {
        let level: String
        let subject: String
        let text: String
    }

    /// Runs doctor on an env file; every finding, and its exit code.
    private func look(_ file: String, environment: [String: String] = [:]) throws -> (code: Int32, findings: [Finding]) {
        let outcome = try Tollgate.run(["doctor", "--json", "--env-file", file], environment: environment)
        guard let body = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any],
            let list = body["findings"] as? [[String: String]]
        else { throw Fault("no findings: \(outcome)") }
        #expect(body["ok"] as? Bool == (outcome.code == 0))
        return (outcome.code, list.map { Finding(level: $0["level"] ?? "", subject: $0["subject"] ?? "", text: $0["text"] ?? "") })
    }

    private func expect(
        _ findings: [Finding], _ level: String, _ subject: String, _ text: String, location: SourceLocation = #_sourceLocation
    ) {
        let found = findings.contains { $0.level == level && $0.subject.hasPrefix(subject) && $0.text.contains(text) }
        #expect(found, "no \(level) \(subject): \(text) in \(findings)", sourceLocation: location)
    }

    private func hide(_ path: String) throws { try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path) }

    private static let keySecret = "a secret that all gateways have in common"

    /// The documented user of Redis.
    private static func rule() throws -> String {
        let page = try String(contentsOf: repository.appending(path: "docs/several-gateways.md"), encoding: .utf8)
        let prefix = "ACL SETUSER tollgate "
        guard let line = page.split(separator: "\n").first(where: { $0.hasPrefix(prefix + "reset") }) else {
            throw Fault("the page has no rule")
        }
        return String(line.dropFirst(prefix.count))
    }

    /// An issuer whose keys are `body`, at its URL.
    private static func issuer(_ body: String) throws -> Upstream {
        try Upstream { _, connection in
            let format = DateFormatter()
            format.locale = Locale(identifier: "en_US_POSIX")
            format.timeZone = TimeZone(secondsFromGMT: 0)
            format.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
            try connection.send(
                "HTTP/1.1 200 OK\r\nDate: \(format.string(from: Date()))\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
        }
    }

    @Test func aGoodDeploymentIsWellUntilSomethingChanges() throws {
        let folder = try Folder()
        let redis = try RedisNode.alone(
            .redis, ["user default on >admin ~* &* +@all", "user tollgate \(Self.rule())"], login: ["--no-auth-warning", "-a", "admin"])
        let (upstream, issuer) = (try Upstream(), try Self.issuer(try keySet(IssuerKey(.es256, kid: "1"))))
        let settings = """
            TOLLGATE_ADMIN_LISTEN=unix:\(folder.file("admin"))
            REDIS_URL=redis://tollgate:secret@127.0.0.1:\(redis.port)/0
            DATABASE_URL="\(try PostgresCluster.shared.get().newDatabase())"
            TOLLGATE_KEY_SECRET="\(Self.keySecret)"
            TOLLGATE_UPSTREAM_U="\(upstream.url) health=/healthz"
            TOLLGATE_ROUTE_ONE="/one upstream=u limit=9/m"
            TOLLGATE_TRUST_LOGIN="issuer=https://login.test audience=api jwks=\(issuer.url)/jwks"
            TOLLGATE_CONTRACTS=password@/api/v1

            """
        let gateway = try Gateway(settings, folder: folder)
        try hide(gateway.envFile)
        try eventually("it is ready") { try gateway.command(["health"]).output == "ready" }
        let (code, findings) = try look(gateway.envFile)
        #expect(code == 0 && findings.allSatisfy { $0.level == "ok" }, "\(findings)")
        expect(findings, "ok", "gateway", "is ready")
        expect(findings, "ok", "gateway", "runs with these settings")
        expect(findings, "ok", "clock", "agrees with")
        expect(findings, "ok", "redis 127.0.0.1", "gives the rights that a gateway needs; its version is not shown to this user")
        expect(findings, "ok", "issuer login", "1 usable key for ES256")
        expect(findings, "ok", "upstream u", "answers with 200")
        expect(findings, "ok", "database DATABASE_URL", "of the schema")
        expect(findings, "ok", "clock of the database", "sessions and codes go by it")
        expect(findings, "ok", "key secret", "opens the keys")
        #expect(try redis.ask("EXISTS", "tollgate:doctor") == "0")
        // In words, too.
        let words = try gateway.command(["doctor"])
        #expect(words.code == 0 && words.output.hasSuffix("All is well."), "\(words)")

        // A clock that is wrong.
        let wrong = try look(gateway.envFile, environment: WrongClock.shared.get().environment(600))
        #expect(wrong.code == 1)
        expect(wrong.findings, "fail", "clock", "s ahead of")

        // A file that the gateway has not read yet.
        try folder.write("gateway.env", Gateway.complete(settings + "TOLLGATE_LOG=debug\n", folder))
        try hide(gateway.envFile)
        let changed = try look(gateway.envFile)
        #expect(changed.code == 0)
        expect(changed.findings, "warn", "gateway", "runs with other settings than these, in TOLLGATE_LOG: reload it (SIGHUP)")
        try gateway.reload(settings + "TOLLGATE_LOG=debug\n")
        try hide(gateway.envFile)
        expect(try look(gateway.envFile).findings, "ok", "gateway", "runs with these settings")

        // Another secret than that of the other gateways, and a file for all to read.
        try folder.write(
            "other.env",
            try folder.read("gateway.env").replacingOccurrences(of: Self.keySecret, with: "another secret of more than 32 characters"))
        let other = try look(folder.file("other.env"))
        expect(other.findings, "fail", "key secret", "does not open the ")
        expect(other.findings, "fail", "file \(folder.file("other.env"))", "has mode 0644")

        // A right that is missing, and keys that are away.
        try redis.ask("ACL", "SETUSER", "tollgate", "-zadd", "-publish")
        issuer.stop()
        #expect(try gateway.stop() == 0)
        let broken = try look(gateway.envFile)
        #expect(broken.code == 1)
        expect(broken.findings, "fail", "redis", "lacks +zadd +publish")
        expect(broken.findings, "fail", "issuer login", "cannot be reached")
        expect(broken.findings, "fail", "gateway", "does not answer")
    }

    @Test func eachBrokenPartIsNamedAndNoneHidesAnother() throws {
        let folder = try Folder()
        let authority = try CertificateAuthority(folder)
        try authority.issue("old", "DNS:old.example.org", endsWithin: -100)
        let (away, redis) = (try Listening.refusing(), try Redis(["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]))
        let issuer = try Self.issuer(try keySet(IssuerKey(.es256, kid: "1")))
        try folder.write("secret", "the secret of an auth server elsewhere")
        try folder.write("token", "token-of-a-program")
        try folder.write(
            "a.env",
            """
            TOLLGATE_LISTEN_TLS=127.0.0.1:0
            TOLLGATE_TLS_CERT=old.crt
            TOLLGATE_TLS_KEY=old.key
            TOLLGATE_PUBLIC_URL=https://api.example.org
            TOLLGATE_ADMIN_LISTEN=unix:\(folder.file("admin"))
            TOLLGATE_ADMIN_TOKEN=admin-of-the-house
            TOLLGATE_DATA_DIR=data
            TOLLGATE_UPSTREAM_AWAY="http://127.0.0.1:\(away.port)"
            TOLLGATE_UPSTREAM_LOST="http://nowhere.invalid:9001"
            TOLLGATE_UPSTREAM_SICK="\(issuer.url)"
            TOLLGATE_UPSTREAM_NAMED="https://127.0.0.1:\(issuer.port) tls-name=backend.test"
            TOLLGATE_UPSTREAM_SHOWN="https://127.0.0.1:\(issuer.port) tls-cert=old.crt tls-key=old.key"
            TOLLGATE_ROUTE_A="/a upstream=away"
            TOLLGATE_ROUTE_N="/n upstream=named"
            TOLLGATE_ROUTE_C="/c upstream=shown"
            TOLLGATE_ROUTE_L="/l upstream=lost"
            TOLLGATE_ROUTE_S="/s upstream=sick"
            TOLLGATE_TRUST_LOGIN="issuer=https://login.test audience=api jwks=\(issuer.url)/jwks algorithms=RS256"
            TOLLGATE_TRUST_LEGACY="issuer=legacy audience=api secret-file=secret"
            TOLLGATE_ADMIN_TOKEN_BILLING="token-file=token scope=tier"
            \(redis.setting)
            SMTP_URL=smtp://127.0.0.1:\(away.port)
            TOLLGATE_MAIL_FROM=a@example.org

            """)
        let (code, findings) = try look(folder.file("a.env"))
        #expect(code == 1)
        expect(findings, "fail", "certificate \(folder.file("old.crt"))", "expired at ")
        expect(findings, "warn", "certificate \(folder.file("old.crt"))", "leads to no CA that this machine trusts")
        expect(findings, "fail", "certificate", "none is for api.example.org")
        expect(findings, "fail", "file \(folder.file("old.key"))", "has mode 0644")
        expect(findings, "fail", "file \(folder.file("secret"))", "every user of this machine")
        expect(findings, "fail", "file \(folder.file("token"))", "every user of this machine")
        expect(findings, "fail", "admin token", "contains the word admin")
        expect(findings, "fail", "upstream away", "cannot be reached")
        expect(findings, "fail", "upstream lost", "cannot be reached")
        expect(findings, "ok", "upstream sick", "answers with 200")
        for name in ["named", "shown"] { expect(findings, "ok", "upstream \(name)", "accepts connections") }
        expect(findings, "fail", "issuer login", "has keys for ES256 and the line accepts RS256")
        expect(findings, "warn", "redis", "maxmemory-policy allkeys-lru")
        expect(findings, "fail", "mail server", "cannot be reached")
        expect(findings, "fail", "gateway", "does not answer")
        expect(findings, "ok", "clock", "agrees with")
        // It made nothing.
        #expect(!FileManager.default.fileExists(atPath: folder.file("data")))
    }

    @Test func anEmbeddedDatabaseThatCannotBeMadeIsAFailure() throws {
        let folder = try Folder()
        try folder.write("file", "")
        func look(_ path: String) throws -> [Finding] {
            try folder.write("a.env", "DATABASE_URL=sqlite://\(folder.file(path))\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n")
            return try self.look(folder.file("a.env")).findings
        }
        expect(try look("none/accounts.db"), "fail", "database", "cannot be made, as there is no folder \(folder.file("none")): ")
        expect(try look("file/accounts.db"), "fail", "database", "cannot be opened (not a directory): ")
        expect(try look("accounts.db"), "ok", "database", "does not exist yet")
    }

    @Test func aRedisThatAnswersNoCommandIsAFailure() throws {
        let (folder, other) = (try Folder(), try Upstream())
        let redis = try RedisNode.alone(.redis, ["user default on >admin ~* &* +@all"], login: ["--no-auth-warning", "-a", "admin"])
        func look(_ url: String) throws -> [Finding] {
            try folder.write("a.env", "REDIS_URL=\(url)\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n")
            return try self.look(folder.file("a.env")).findings
        }
        expect(try look("redis://127.0.0.1:\(redis.port)"), "fail", "redis 127.0.0.1:", "answers no command (NOAUTH ")
        expect(try look("redis://127.0.0.1:\(other.port)"), "fail", "redis 127.0.0.1:", "answers no command (")
        expect(try look("redis+cluster://:admin@127.0.0.1:\(redis.port)"), "fail", "redis 127.0.0.1:", "is no node of a cluster (ERR ")
        expect(
            try look("rediss://:admin@127.0.0.1:\(redis.port)"), "fail", "redis 127.0.0.1:",
            "speaks no TLS, which rediss in REDIS_URL demands: write redis, or name the port where it does")
        expect(
            try look("rediss://127.0.0.1:\(other.port)"), "fail", "redis 127.0.0.1:",
            "; if it speaks no TLS, its URL must begin with redis and not rediss")
        expect(try look("redis://:admin@127.0.0.1:\(redis.port)"), "ok", "redis 127.0.0.1:", "gives the rights that a gateway needs")
    }

    @Test func aServerThatRefusesTheLoginIsAskedForOtherCredentials() throws {
        let folder = try Folder()
        let redis = try RedisNode.alone(.redis, ["user default on >admin ~* &* +@all"], login: ["--no-auth-warning", "-a", "admin"])
        let mail = try MailSink(login: ("ada", "right"))
        let database = try PostgresCluster.shared.get().newDatabase()
        func look(_ lines: String) throws -> [Finding] {
            try folder.write("a.env", "\(lines)\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\nTOLLGATE_CONTRACTS=\n")
            return try self.look(folder.file("a.env")).findings
        }
        let from = "\nTOLLGATE_MAIL_FROM=a@a.test"
        expect(
            try look("REDIS_URL=redis://:wrong@127.0.0.1:\(redis.port)"), "fail", "redis 127.0.0.1:",
            "correct user and password in REDIS_URL")
        expect(try look("SMTP_URL=smtp://ada:wrong@127.0.0.1:\(mail.port)" + from), "fail", "mail server 127.0.0.1:", "refuses the login (")
        expect(try look("SMTP_URL=smtp://ada:right@127.0.0.1:\(mail.port)" + from), "ok", "mail server 127.0.0.1:", "lets this gateway in")
        #expect(mail.received.isEmpty)
        expect(
            try look("DATABASE_URL=\"\(database.replacing("//tollgate@", with: "//nobody@"))\""), "fail", "database DATABASE_URL",
            "correct user and password in DATABASE_URL")
        expect(try look("DATABASE_URL=\"\(database)_gone\""), "fail", "database DATABASE_URL", "create that database")
    }

    /// Whether an upstream misses the paths that the gateway answers itself is for the upstream to say.
    @Test func pathsThatAnUpstreamLosesAreNamedIfItHasThem() throws {
        let folder = try Folder()
        let upstream = try Upstream { request, connection in
            let path = request.startLine.split(separator: " ")[1]
            let status = ["/web/", "/api/v1/auth/login"].contains(path) ? "405 No" : "404 Not Found"
            try connection.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")
        }
        try folder.write(
            "a.env",
            "TOLLGATE_UPSTREAM_U=\(upstream.url)\nTOLLGATE_ROUTE_R=\"/* upstream=u\"\nTOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n"
        )
        let findings = try look(folder.file("a.env")).findings.filter { $0.text.contains("itself") }
        #expect(findings.count == 2 && findings.allSatisfy { $0.level == "warn" }, "\(findings)")
        expect(
            findings, "warn", "upstream u ",
            "seems to have /web/* itself. TOLLGATE_ROUTE_R: /web/* never reaches upstream=u: the account page answers there")
        expect(
            findings, "warn", "upstream u ",
            "seems to have /api/v1/auth/login itself. TOLLGATE_ROUTE_R: /api/v1/auth/login never reaches upstream=u: password@/api/v1")
    }

    /// The gateway's own connections trust the file alone; doctor would else say that an upstream is well which the gateway refuses.
    @Test(.enabled(if: mayMount)) func aFileOfAuthoritiesStandsInPlaceOfTheSystems() throws {
        let folder = try Folder()
        let (authority, stranger) = (try CertificateAuthority(folder), try CertificateAuthority(Folder()))
        try authority.issue("good", "DNS:localhost")
        // Of another name than the authority: of two with one name OpenSSL looks at the file's alone.
        try stranger.issue("other", "DNS:other.test")
        let server = try Nginx(
            "ssl_certificate \(folder.file("good.crt")); ssl_certificate_key \(folder.file("good.key")); location / { return 200; }",
            tls: true)
        try folder.write(
            "a.env",
            """
            TOLLGATE_UPSTREAM_SYSTEM="https://localhost:\(server.port)"
            TOLLGATE_UPSTREAM_FILE="https://localhost:\(server.port) tls-ca=\(stranger.folder.file("other.crt"))"
            TOLLGATE_ROUTE_SYSTEM="/s upstream=system"
            TOLLGATE_ROUTE_FILE="/f upstream=file"
            TOLLGATE_ADMIN_LISTEN=
            TOLLGATE_DATA_DIR=data

            """)
        // The folder of a system that trusts the authority.
        let system = folder.file("system")
        let hash = try mustRun("openssl", ["x509", "-hash", "-noout", "-in", authority.file])
        try FileManager.default.createDirectory(atPath: system, withIntermediateDirectories: true)
        for name in ["ca-certificates.crt", hash.filter { !$0.isWhitespace } + ".0"] {
            try folder.write("system/" + name, try folder.read("ca.crt"))
        }
        let outcome = try run(
            "/usr/bin/unshare",
            [
                "--mount", "bash", "-c", "mount --bind '\(system)' /etc/ssl/certs && exec \"$@\"", "private", try Tollgate.binary.get(),
                "doctor", "--env-file", folder.file("a.env"),
            ])
        #expect(outcome.output.contains("ok    upstream system https://localhost:\(server.port): answers with 200"), "\(outcome)")
        #expect(
            outcome.output.contains(
                "fail  upstream file https://localhost:\(server.port): cannot be reached: SSL certificate problem: unable to get local issuer certificate"
            ), "\(outcome)")
    }

    @Test func theCollectorOfTracesIsAsked() throws {
        let (folder, status) = (try Folder(), Watched("200 OK"))
        let authority = try CertificateAuthority(folder)
        try authority.issue("collector", "DNS:localhost")
        let collector = try Collector { _, connection in try connection.send("HTTP/1.1 \(status.now)\r\nContent-Length: 0\r\n\r\n") }
        let front = try Nginx(
            "ssl_certificate \(folder.file("collector.crt")); ssl_certificate_key \(folder.file("collector.key")); location / { proxy_pass \(collector.url); }",
            tls: true)
        func look(_ lines: String) throws -> [Finding] {
            try folder.write("a.env", "\(lines)\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n")
            return try self.look(folder.file("a.env")).findings
        }
        let secure = "OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:\(front.port)"
        expect(
            try look(secure + "\nOTEL_EXPORTER_OTLP_CERTIFICATE=ca.crt\nOTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b"), "ok",
            "collector https://localhost:\(front.port)/v1/traces", "takes spans")
        let asked = try #require(collector.requests.last)
        #expect(asked.startLine.hasPrefix("POST /v1/traces ") && asked["x-key"] == "a b" && asked.text == #"{"resourceSpans":[]}"#)
        expect(try look(secure), "fail", "collector https:", "unable to get local issuer certificate")
        #expect(collector.requests.count == 1)
        for (answer, level, text) in [
            ("401 No", "fail", "answers 401: give its key by OTEL_EXPORTER_OTLP_HEADERS"),
            ("404 No", "fail", "answers 404: correct OTEL_EXPORTER_OTLP_ENDPOINT"),
            ("503 Busy", "warn", "answers 503: "),
        ] {
            status.change { $0 = answer }
            expect(try look(collector.setting), level, "collector \(collector.url)/v1/traces", text)
        }
        let away = try Listening.refusing()
        expect(
            try look("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:\(away.port)/x"), "fail",
            "collector http://127.0.0.1:\(away.port)/x", "cannot be reached: ")
        #expect(!(try look(collector.setting + "\nOTEL_SDK_DISABLED=true").contains { $0.subject.hasPrefix("collector") }))
    }

    @Test func sentinelsAndTheirPrimaryAreAsked() throws {
        let set = try SentinelSet()
        let folder = try Folder()
        try folder.write("a.env", "\(set.setting)\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n")
        let (_, findings) = try look(folder.file("a.env"))
        expect(findings, "ok", "sentinels of \(SentinelSet.master)", "all name 127.0.0.1:")
        expect(findings, "ok", "redis 127.0.0.1:", "is version ")
        expect(findings, "warn", "gateway", "TOLLGATE_ADMIN_LISTEN names no address")
        set.sentinels[0].kill()
        let (code, fewer) = try look(folder.file("a.env"))
        #expect(code == 0)
        expect(fewer, "warn", "sentinel ", "does not name the primary of \(SentinelSet.master)")
    }

    @Test func theNodesOfAClusterAreAsked() throws {
        let cluster = try RedisCluster()
        let folder = try Folder()
        try folder.write("a.env", "\(cluster.setting)\nTOLLGATE_ADMIN_LISTEN=\nTOLLGATE_DATA_DIR=data\n")
        let (code, findings) = try look(folder.file("a.env"))
        #expect(code == 0 && findings.contains { $0.level == "ok" && $0.subject.hasPrefix("redis ") }, "\(findings)")
    }

    @Test func aConfigurationWithFaultsIsPrintedAsByCheck() throws {
        let folder = try Folder()
        try folder.write("a.env", "TOLLGATE_LISTN=x\n")
        let outcome = try Tollgate.run(["doctor", "--env-file", folder.file("a.env")])
        #expect(outcome.code == 2 && outcome.complaints.contains("a.env:1: TOLLGATE_LISTN: is no setting, the nearest is TOLLGATE_LISTEN"))
    }
}
