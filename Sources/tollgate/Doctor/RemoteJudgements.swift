internal import Credentials
internal import Issuers
internal import Redis
internal import Settings
internal import Storage
internal import Wire

/// The judgements of `tollgate doctor` about the servers that a gateway depends on: facts in, findings out.
enum RemoteJudgements {
    // MARK: upstreams and issuers

    /// `status` is that of a request to `url`; nil where only a connection was tried.
    static func upstream(_ name: String, _ url: String, status: Int?, isHealthCheck: Bool) -> Diagnosis {
        let subject = "upstream \(name) \(url)"
        guard let status else { return .ok(subject, "accepts connections") }
        if isHealthCheck, !(200..<400).contains(status) {
            return .fail(
                subject,
                "answers its health check with \(status), so it gets no requests: mend it, or set health= to a path that answers 200 to 399"
            )
        }
        return status >= 500 ? .warn(subject, "answers with \(status): look at its log") : .ok(subject, "answers with \(status)")
    }

    static func unreachable(_ kind: String, _ name: String, _ reason: String) -> Diagnosis {
        .fail("\(kind) \(name)", "cannot be reached: \(reason); start it, or correct its address")
    }

    /// A server that `setting` names was asked and did not let the gateway in, or could not be asked, for `reason`.
    static func closed(_ kind: String, _ name: String, _ reason: String, setting: String) -> Diagnosis {
        guard let right = refusals.first(where: { reason.contains($0.words) })?.right else { return unreachable(kind, name, reason) }
        return .fail(
            "\(kind) \(name)", "was reached and does not let this gateway in: \(reason); \(right.replacing("SETTING", with: setting))")
    }

    /// The remedies for refusals, by the words of Redis and PostgreSQL for them, the more particular first.
    private static let refusals: [(words: String, right: String)] = {
        let (login, missing) = (
            "correct user and password in SETTING", "give SETTING its password, and the user if it is not the default one"
        )
        return [
            ("NOAUTH", missing), ("no password supplied", missing), ("WRONGPASS", login), ("AUTH", login), ("authentication failed", login),
            ("pg_hba.conf", "let this machine in by its pg_hba.conf, or correct user and database in SETTING"),
            ("role \"", login), ("\" does not exist", "create that database, or correct its name in SETTING"),
        ]
    }()

    /// A mail server that accepts connections: why its log-in failed; nil if it did not.
    static func mailServer(_ name: String, _ fault: (reason: String, isLoginDenied: Bool)?) -> Diagnosis {
        let subject = "mail server \(name)"
        guard let fault else { return .ok(subject, "lets this gateway in") }
        return fault.isLoginDenied
            ? .fail(subject, "refuses the login (\(fault.reason)): correct user and password in SMTP_URL")
            : .fail(subject, "accepts connections and cannot be used: \(fault.reason); look at its log, or correct SMTP_URL")
    }

    /// Paths of a route that its upstream answers otherwise than paths that it cannot have.
    static func taken(_ taken: TakenPaths, by url: String) -> Diagnosis {
        .warn(
            "upstream \(taken.route.upstream) \(url)",
            "seems to have \(taken.paths.joined(separator: " ")) itself. \(taken.route.variable): \(taken.message)")
    }

    /// The key set of an outside issuer: `body` as it was fetched.
    static func keySet(_ name: String, _ url: String, status: Int, body: [UInt8], algorithms: AlgorithmSet) -> [Diagnosis] {
        let subject = "issuer \(name)"
        guard status == 200 else { return [.fail(subject, "answers \(status) at \(url): set jwks= to the URL of its key set")] }
        let keys: KeySet
        do throws(KeyFault) {
            keys = try KeySet(jwks: body.rawBytes)
        } catch {
            return [.fail(subject, "has no usable keys at \(url) (\(error.message)): set jwks= to the URL of its key set")]
        }
        let offered = SigningAlgorithm.allCases.filter { algorithm in keys.keys.contains { $0.algorithms.contains(algorithm) } }
        let usable = offered.filter(algorithms.contains)
        guard !usable.isEmpty else {
            let accepted = algorithms.members.map(\.name).joined(separator: ",")
            return [
                .fail(
                    subject,
                    "has keys for \(offered.map(\.name).joined(separator: ",")) and the line accepts \(accepted): correct algorithms=")
            ]
        }
        let isOpen = url.hasPrefix("http://") && !isLoopback(url)
        let found: Diagnosis =
            isOpen
            ? .warn(subject, "gives its keys over plain HTTP, where others on the way can replace them: write jwks=https://…")
            : .ok(subject, "has \(counted(keys.keys.count, "usable key")) for \(usable.map(\.name).joined(separator: ","))")
        return [found] + keys.refusals.map { .warn(subject, $0.message) }
    }

    private static func isLoopback(_ url: String) -> Bool {
        ["http://127.", "http://localhost", "http://[::1]"].contains { url.hasPrefix($0) }
    }

    // MARK: the collector of traces

    /// `status` answered an export of no spans.
    static func collector(_ url: String, status: Int) -> Diagnosis {
        let subject = "collector \(url)"
        switch status {
        case 200..<300: return .ok(subject, "takes spans")
        case 401, 403: return .fail(subject, "answers \(status): give its key by OTEL_EXPORTER_OTLP_HEADERS")
        case 404, 405:
            return .fail(
                subject,
                "answers \(status): correct OTEL_EXPORTER_OTLP_ENDPOINT, below which spans go to /v1/traces, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
            )
        case 415: return .fail(subject, "answers 415: it takes no JSON, put a collector that does in between")
        case 429, 502, 503, 504: return .warn(subject, "answers \(status): spans wait for it and are dropped in the end, look at its log")
        default: return .fail(subject, "answers \(status), so spans are dropped: look at its log")
        }
    }

    // MARK: Redis

    /// Facts about one server; nil where its user may not ask.
    struct Redis: Equatable, Sendable {
        /// Why it answers no command at all.
        var fault: String?
        var version: String?
        var policy: String?
        var maxMemory: Int?
        var role: String?
        /// The rights of docs/several-gateways.md that are missing, as `+command`.
        var missingRights: [String] = []
        /// Of a cluster's node.
        var clusterState: String?
        /// The error of a server that is no node of a cluster, and should be.
        var clusterFault: String?
        var clusterSlots: Int?
    }

    static func redisWithoutTLS(_ address: String) -> Diagnosis {
        .fail("redis \(address)", "speaks no TLS, which rediss in REDIS_URL demands: write redis, or name the port where it does")
    }

    static func redis(_ address: String, _ facts: Redis) -> [Diagnosis] {
        let subject = "redis \(address)"
        if let fault = facts.fault {
            let right = refusals.first { fault.contains($0.words) }?.right.replacing("SETTING", with: Setting.redisURL.name)
            return [.fail(subject, "answers no command (\(fault)): \(right ?? "correct its address, or look at its log")")]
        }
        if let fault = facts.clusterFault {
            return [.fail(subject, "is no node of a cluster (\(fault)): write redis:// for a single server")]
        }
        var findings: [Diagnosis] = []
        if !facts.missingRights.isEmpty {
            findings.append(
                .fail(
                    subject, "its user lacks \(facts.missingRights.joined(separator: " ")): give it the rights in docs/several-gateways.md")
            )
        }
        if let version = facts.version, isOld(version) {
            findings.append(.fail(subject, "is version \(version): run 6.2 or newer"))
        }
        if facts.role == "slave" {
            findings.append(.fail(subject, "is a replica, which takes no writes: name the primary, or the sentinels by redis+sentinel://"))
        }
        if let policy = facts.policy, policy != "noeviction", facts.maxMemory ?? 0 > 0 {
            findings.append(
                .warn(
                    subject,
                    "has maxmemory-policy \(policy), which forgets counts when memory is short, so that limits admit more: set noeviction, and memory enough"
                ))
        }
        if let state = facts.clusterState, state != "ok" {
            findings.append(.fail(subject, "says that the cluster is \(state): mend it (redis-cli --cluster check \(address))"))
        } else if let slots = facts.clusterSlots, slots < 16_384 {
            findings.append(.fail(subject, "knows \(slots) of 16384 slots: mend the cluster (redis-cli --cluster fix \(address))"))
        }
        guard findings.isEmpty else { return findings }
        return [
            .ok(
                subject,
                facts.version.map { "is version \($0) and gives the rights that a gateway needs" }
                    ?? "gives the rights that a gateway needs; its version is not shown to this user")
        ]
    }

    /// Older than 6.2.
    private static func isOld(_ version: String) -> Bool {
        let numbers = version.split(separator: ".").prefix(2).compactMap { Int($0) }
        return numbers.count == 2 && (numbers[0], numbers[1]) < (6, 2)
    }

    /// The answers of the sentinels: the primary of `master`, or why there is none.
    static func sentinels(_ master: String, _ answers: [(address: String, primary: Result<String, RedisInquiry.Fault>)]) -> [Diagnosis] {
        let known = answers.compactMap { answer in try? answer.primary.get() }  // Failures are named below.
        var findings: [Diagnosis] = answers.compactMap { answer in
            guard case .failure(let fault) = answer.primary else { return nil }
            return Diagnosis(
                level: 2 * known.count > answers.count ? .warn : .fail, subject: "sentinel \(answer.address)",
                text: "does not name the primary of \(master): \(fault.reason); start it, or correct its address or rights")
        }
        if Set(known).count > 1 {
            findings.append(
                .fail(
                    "sentinels of \(master)",
                    "name different primaries, \(Set(known).sorted().joined(separator: " and ")): wait for the failover to end, then mend the one that is wrong"
                ))
        }
        if findings.isEmpty, let primary = known.first { findings.append(.ok("sentinels of \(master)", "all name \(primary)")) }
        return findings
    }

    // MARK: the database

    static func database(_ name: String, _ facts: StoreInspection) -> [Diagnosis] {
        let subject = "database \(name)"
        var findings: [Diagnosis] = []
        if facts.isStandby {
            findings.append(.fail(subject, "is a standby, which takes no writes: name the primary, or all servers of it, in DATABASE_URL"))
        }
        if let mode = facts.journalMode, mode != "wal", facts.version != nil {
            findings.append(
                .warn(
                    subject,
                    "has the journal mode \(mode), so readers wait for writers: `tollgate serve` sets wal, unless the file system cannot"))
        }
        switch facts.version {
        case nil: findings.append(.warn(subject, "has no tables yet: `tollgate serve` makes them at its start"))
        case let version? where version > facts.newest:
            findings.append(
                .fail(subject, "is at version \(version) of the schema and this program knows \(facts.newest): run the newer program"))
        case let version? where version < facts.newest:
            findings.append(
                .warn(
                    subject,
                    "is at version \(version) of the schema and this program needs \(facts.newest): `tollgate serve` migrates it at its start"
                ))
        case let version?: if findings.isEmpty { findings.append(.ok(subject, "is at version \(version) of the schema")) }
        }
        return findings
    }

    /// Says the offset; whether it is a fault is judged among all clocks.
    static func databaseClock(_ reading: ClockReading) -> Diagnosis {
        let milliseconds = [reading.offset, reading.uncertainty].map { Int(($0.magnitude * 1_000).rounded()) }
        let direction = reading.offset < 0 ? "behind" : "ahead of"
        return .ok(
            "clock of the database",
            "is \(milliseconds[0]) ms \(direction) this machine's, give or take \(milliseconds[1]) ms: sessions and codes go by it")
    }

    /// Whether this gateway's `TOLLGATE_KEY_SECRET` is the one that sealed the keys of the others.
    static func keySecret(_ sealed: [(name: String, bytes: [UInt8])], _ secret: [UInt8]?) -> Diagnosis {
        let subject = "key secret"
        guard let secret else {
            return sealed.isEmpty
                ? .warn(subject, "is not set, so each gateway signs with keys of its own: set TOLLGATE_KEY_SECRET, the same on all")
                : .fail(
                    subject,
                    "is not set, and other gateways sealed their signing keys in the database with one: set the same TOLLGATE_KEY_SECRET")
        }
        guard !sealed.isEmpty else { return .ok(subject, "has sealed nothing in the database yet") }
        let closed = sealed.filter { !SharedKeys.opens($0.bytes, as: $0.name, secret: secret) }
        guard let first = closed.first else { return .ok(subject, "opens the keys that the gateways share") }
        return .fail(
            subject,
            "does not open the \(first.name) in the database, which were sealed with another: set the TOLLGATE_KEY_SECRET of the other gateways"
        )
    }
}
