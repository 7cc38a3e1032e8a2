internal import Contracts
internal import Mail
internal import Settings
internal import Storage
internal import System
internal import Telemetry
internal import Transport
internal import Wire

/// The judgements of `tollgate doctor` about this machine: facts in, findings out.
enum LocalJudgements {
    private static let soonSeconds: Int64 = 14 * 86_400
    private static let shortOfSpace: UInt64 = 256 << 20

    // MARK: clock

    /// `skewSeconds` is `TOLLGATE_CLOCK_SKEW`.
    static func clock(_ readings: [ClockReading], skewSeconds: Int64) -> [Diagnosis] {
        guard !readings.isEmpty else { return [.ok("clock", "no server told its time, so there is nothing to compare with")] }
        let far = readings.filter { $0.difference > 2 }
        guard !far.isEmpty else { return [.ok("clock", "agrees with \(readings.map(\.source).joined(separator: ", "))")] }
        let isOurs = 2 * far.count > readings.count
        return far.map { reading in
            let seconds = Int(reading.difference.rounded())
            let direction = (reading.offset < 0) == isOurs ? "ahead" : "behind"
            let text =
                isOurs
                ? "this machine is \(seconds) s \(direction) of \(reading.source): tokens are refused early or late, synchronise its clock (timedatectl set-ntp true)"
                : "the clock of \(reading.source) is \(seconds) s \(direction): synchronise it there"
            return Diagnosis(level: isOurs && seconds > skewSeconds ? .fail : .warn, subject: "clock", text: text)
        }
    }

    // MARK: certificates

    /// `host` is that of the public URL; nil where it is not https.
    static func certificates(_ facts: [CertificateFacts], host: String?, now: WallTime) -> [Diagnosis] {
        var findings = facts.map { certificate($0, now) }
        for fact in facts where fact.chainFault != nil {
            findings.append(
                .warn(
                    "certificate \(fact.path)",
                    "its chain leads to no CA that this machine trusts (\(fact.chainFault ?? "")): put the intermediate certificates behind it in the file, unless clients trust its own CA"
                ))
        }
        if let host, !facts.isEmpty, !facts.contains(where: \.isForHost) {
            findings.append(
                .fail(
                    "certificate",
                    "none is for \(host), the host of TOLLGATE_PUBLIC_URL: clients refuse the connection, get one with that name"))
        }
        return findings
    }

    private static func certificate(_ fact: CertificateFacts, _ now: WallTime) -> Diagnosis {
        let subject = "certificate \(fact.path)"
        let left = fact.expiresAt.seconds - now.seconds
        if left <= 0 {
            return .fail(subject, "expired at \(ISO8601.text(fact.expiresAt)): renew it, a changed file is read without a restart")
        }
        if fact.startsAt > now {
            return .fail(subject, "is valid only from \(ISO8601.text(fact.startsAt)): give one that is valid now, or set the clock")
        }
        if left < soonSeconds {
            return .warn(subject, "expires in \(counted(Int(left / 86_400), "day")), at \(ISO8601.text(fact.expiresAt)): renew it")
        }
        return .ok(subject, "is valid until \(ISO8601.text(fact.expiresAt))")
    }

    // MARK: files

    /// A file with a secret. `mode` has the permission bits; nil if the file cannot be looked at, for `reason`.
    static func secretFile(_ path: String, mode: UInt32?, reason: String = "") -> Diagnosis {
        let subject = "file \(path)"
        guard let mode else { return .warn(subject, "cannot be looked at (\(reason)): run doctor as the user of the gateway") }
        if mode & 0o007 != 0 {
            return .fail(subject, "has mode \(octal(mode)), so every user of this machine can get at its secret: chmod o= \(path)")
        }
        if mode & 0o020 != 0 { return .warn(subject, "has mode \(octal(mode)), so its group can change it: chmod g-w \(path)") }
        return .ok(subject, "has mode \(octal(mode))")
    }

    private static func octal(_ mode: UInt32) -> String {
        let digits = String(mode & 0o7777, radix: 8)
        return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
    }

    /// The file system of the data folder.
    static func space(_ space: FileSystemSpace, of path: String) -> Diagnosis {
        let subject = "data folder \(path)"
        let text = "has \(SizeText.text((space.free >> 20) << 20)) free"
        if space.free < shortOfSpace / 16 { return .fail(subject, "\(text): accounts and keys cannot be written soon, make room") }
        if space.free < shortOfSpace || space.total > 0 && space.free < space.total / 50 {
            return .warn(subject, "\(text): make room before it is full")
        }
        return .ok(subject, text)
    }

    // MARK: settings

    /// Settings that are good each by itself, and together not what a deployment wants.
    static func combinations(_ configuration: GatewayConfiguration) -> [Diagnosis] {
        let (settings, mounts) = (configuration.settings, configuration.contracts.mounts)
        var findings: [Diagnosis] = []
        let tellsNoClient = settings.listeners.contains { !$0.expectsProxyHeader } && settings.trustedProxies.isEmpty
        if settings.publicURL.hasPrefix("https://"), settings.tlsListeners.isEmpty, tellsNoClient {
            findings.append(
                .warn(
                    "load balancer",
                    "ends TLS in front, as TOLLGATE_PUBLIC_URL is https and TOLLGATE_LISTEN_TLS is empty, and is not trusted: all clients count as one address, set TOLLGATE_TRUSTED_PROXIES to its networks"
                ))
        }
        let mailers = mounts.filter { Catalogue.sendsMail($0.contract) }.map(\.text)
        if settings.publicURL.hasPrefix("https://"), configuration.mail.mail == nil, !mailers.isEmpty {
            findings.append(
                .warn(
                    "mail",
                    "goes to the development outbox, where no user reads codes and links, and TOLLGATE_PUBLIC_URL is https: set SMTP_URL and TOLLGATE_MAIL_FROM, or leave \(mailers.joined(separator: " ")) out of TOLLGATE_CONTRACTS"
                ))
        }
        if !mounts.isEmpty, configuration.redis != nil, configuration.database?.isServer != true {
            findings.append(
                .warn(
                    "accounts",
                    "are in a file of this gateway alone, and REDIS_URL is there for several gateways: the others know neither its users nor their sessions, set DATABASE_URL to a PostgreSQL for all of them, unless this is the only gateway"
                ))
        }
        return findings
    }

    /// The addresses of upstreams in config/production.env.example. Its other names are reserved for examples (RFC 2606 §3).
    private static let exampleAddresses = ["10.0.0.11:9001", "10.0.0.12:9001"]

    /// Settings with addresses of the example file.
    static func examples(_ settings: [EffectiveSetting]) -> [Diagnosis] {
        let named = settings.compactMap { setting -> String? in
            guard setting.origin != .builtIn, let text = setting.value, let found = example(in: text) else { return nil }
            return "\(setting.name) (\(found))"
        }
        guard !named.isEmpty else { return [] }
        return [.warn("addresses", "are those of the example file\(places(named)): write your own")]
    }

    private static func example(in text: String) -> String? {
        let words = text.split { !($0.isLetter || $0.isNumber || $0 == "." || $0 == "-" || $0 == ":") }.map { String($0) }
        let names = words.flatMap { $0.split(separator: ":").map { $0.lowercased() } }
        let domains = ["example.org", "example.com", "example.net"]
        return words.first(where: exampleAddresses.contains)
            ?? names.first { name in domains.contains { name == $0 || name.hasSuffix("." + $0) } }
    }

    // MARK: secrets

    /// An admin token that the operator chose.
    static func adminToken(_ token: [UInt8]) -> Diagnosis {
        let (subject, right) = ("admin token", "set a random one (openssl rand -hex 32), it opens every account")
        let text = String(decoding: token, as: UTF8.self).lowercased()
        let common = ["admin", "changeme", "password", "secret", "token", "tollgate", "example"].first { text.contains($0) }
        if let common { return .fail(subject, "contains the word \(common): \(right)") }
        if token.count < 16 { return .fail(subject, "has \(counted(token.count, "character")): \(right)") }
        if Set(token).count < 8 { return .fail(subject, "consists of \(counted(Set(token).count, "character")) again and again: \(right)") }
        return .ok(subject, "has \(counted(token.count, "character"))")
    }

    // MARK: the running gateway

    /// Facts about the process that the data folder names.
    struct Running: Equatable, Sendable {
        var version: String
        /// Whether it runs with these settings; nil if unknown.
        var runsSettings: Bool?
        /// The variables in which its settings differ from these; none if unknown.
        var different: [String] = []
        /// Its hard limit of open descriptors; nil if it cannot be read.
        var descriptors: Int?
    }

    /// `answer` is that of /readyz, or why there is none. `running` is nil if the data folder names no living process.
    static func gateway(_ address: String, _ answer: Result<Readiness, ReadinessProbe.Fault>, _ running: Running?) -> [Diagnosis] {
        let subject = "gateway \(address)"
        switch answer {
        case .failure(let fault):
            return [
                .fail(subject, "does not answer (\(fault.text)): start it by `tollgate serve`, or set TOLLGATE_ADMIN_LISTEN to its address")
            ]
        case .success(let readiness):
            var findings: [Diagnosis] = readiness.checks.filter { $0.state != .ready }.map { check in
                Diagnosis(
                    level: check.state == .unready ? .fail : .warn, subject: subject,
                    text: "\(check.name) is \(check.state.text): \(check.reason ?? "no reason given")")
            }
            if findings.isEmpty { findings.append(.ok(subject, "is ready")) }
            guard let running else { return findings }
            if running.version != Version.text {
                findings.append(.warn(subject, "runs version \(running.version) and this program is \(Version.text): restart it"))
            }
            switch running.runsSettings {
            case true?: findings.append(.ok(subject, "runs with these settings"))
            case false?:
                findings.append(
                    .warn(
                        subject,
                        "runs with other settings than these\(places(running.different)): reload it (SIGHUP) or, where a setting needs it, restart it, and give doctor the same env files and environment"
                    ))
            case nil: break
            }
            return findings
        }
    }

    /// Where settings differ: `, in A, B and 2 more`.
    private static func places(_ names: [String]) -> String {
        guard !names.isEmpty else { return "" }
        return ", in " + names.prefix(5).joined(separator: ", ") + (names.count > 5 ? " and \(names.count - 5) more" : "")
    }

    /// Whether the descriptors are enough for the connections that the settings allow. `isOwn` says that they are those of a new process
    /// like this one, because no gateway runs.
    static func descriptors(_ limits: LoadLimits, _ settings: Configuration, descriptors: Int, isOwn: Bool) -> Diagnosis {
        let whose = isOwn ? "a process of this user" : "the gateway"
        guard limits.isShortOfDescriptors else {
            return .ok("descriptors", "\(whose) may have \(descriptors), enough for TOLLGATE_MAX_CONNECTIONS")
        }
        let text =
            "\(whose) may have \(descriptors), enough for \(counted(limits.connections, "client connection")) and not for the \(settings.maxConnections) of TOLLGATE_MAX_CONNECTIONS: raise the hard limit to \(2 * settings.maxConnections + 4_096) (LimitNOFILE= of systemd, ulimit -Hn), or lower the setting"
        // The default is a ceiling, not a demand.
        return settings.origin(of: Setting.plain(\.maxConnections)) == .builtIn
            ? .ok("descriptors", "\(whose) may have \(descriptors), enough for \(counted(limits.connections, "client connection"))")
            : .warn("descriptors", text)
    }
}
