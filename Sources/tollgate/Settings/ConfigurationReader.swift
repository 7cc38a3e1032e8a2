internal import Credentials
internal import Gate
internal import Mail
internal import Transport
internal import Wire

/// What reading the settings came to.
package struct LoadedSettings: Sendable {
    /// What could be read. Only without faults does it say what the operator meant.
    package var partial: Configuration
    package var findings: Findings

    /// The configuration, if nothing is wrong with it.
    package var configuration: Configuration? { findings.faults.isEmpty ? partial : nil }
}

/// Reads a configuration out of its sources.
package enum Settings {
    /// Reads all settings; reports every fault and every warning, in reading order. Pure, but for `readFile`.
    package static func load(_ sources: SettingSources) -> LoadedSettings {
        var reader = ConfigurationReader(sources)
        reader.readAll()
        let findings = reader.findings.sorted(files: sources.files.map(\.name))
        return LoadedSettings(partial: reader.configuration, findings: findings)
    }
}

/// One reading of all settings: a method per group, each a list of rows and where their values go.
struct ConfigurationReader {
    let sources: SettingSources
    let values: SettingValues
    var findings: Findings
    var configuration = Configuration()
    /// The rows read so far: each must be, once.
    private var read: Set<String> = []

    init(_ sources: SettingSources) {
        self.sources = sources
        values = SettingValues(sources)
        findings = values.findings
        configuration.overridden = values.overridden
    }

    mutating func readAll() {
        readListeners()
        readOwnTokens()
        readIssuers()
        readPolicy()
        readDelivery()
        readAccounts()
        readRest()
        readUnbuilt()
        readRoutes()
        checkListeners()
        checkInternals()
        checkIssuers()
        assert(read == Set(Setting.all.filter { $0.stage == .built }.map(\.name)), "a row that is never read, or unknown")
    }

    private mutating func readListeners() {
        configuration.listeners = listeners(.listen)
        configuration.tlsListeners = listeners(.listenTLS)
        configuration.adminListeners = listeners(.adminListen, allowsProxy: false)
        let certificates = words(.tlsCert), keys = words(.tlsKey)
        if certificates.count != keys.count {
            let message = "names \(counted(keys.count, "file")) and TOLLGATE_TLS_CERT \(counted(certificates.count, "file")), give one key for each certificate"
            fault(keys.isEmpty ? .tlsCert : .tlsKey, keys.isEmpty ? "has no key beside it, set TOLLGATE_TLS_KEY" : message)
        }
        let origin = values.entry(.tlsCert).origin
        configuration.tlsPairs = zip(certificates, keys).map {
            TLSPairDeclaration(certificate: $0, key: $1, origin: origin)
        }
        let authorities = words(.tlsClientCA)
        if authorities.count > 1 { fault(.tlsClientCA, "names \(counted(authorities.count, "file")), put all certificates into one") }
        configuration.tlsClientAuthority = authorities.first
        configuration.tlsClientAuthorityOrigin = values.entry(.tlsClientCA).origin
    }

    private mutating func readOwnTokens() {
        configuration.adminToken = secret(.adminToken)
        if let token = configuration.adminToken { checkAdminToken(token) }
        configuration.adminHosts = words(.adminHosts).compactMap { word in
            take(.adminHosts, word) { text throws(ParseError) in try TypedText.hostName(text) }
        }
        configuration.publicURL = url(.publicURL) ?? ""
        configuration.issuer = text(.issuer)
        if configuration.issuer.isEmpty { configuration.issuer = configuration.publicURL }
        configuration.audience = text(.audience)
        configuration.signingAlgorithm = SigningAlgorithm(name: choice(.signingAlgorithm) ?? "") ?? .ES256
        configuration.signingAlgorithmOrigin = values.entry(.signingAlgorithm).origin
        configuration.jwtSecret = secret(.jwtSecret)
        if let secret = configuration.jwtSecret { checkSigningSecret(secret) }
        configuration.clockSkewSeconds = Int64((duration(.clockSkew) ?? 0) / 1000)
    }

    private mutating func readIssuers() {
        for (name, entry) in family(.trust) {
            let (trust, found) = TrustLine.parse(entry, name: name, sources)
            findings.add(found)
            configuration.trusts.append(trust)
        }
        for (name, entry) in family(.internalCaller) {
            let (caller, found) = InternalLine.parse(entry, name: name)
            findings.add(found)
            configuration.internals.append(caller)
        }
    }

    private mutating func readPolicy() {
        configuration.tiers = tiers()
        for (name, entry) in family(.upstream) {
            let (upstream, found) = UpstreamLine.parse(entry, name: name)
            findings.add(found)
            configuration.upstreams.append(upstream)
        }
        configuration.trustedProxies = words(.trustedProxies).compactMap { word in
            take(.trustedProxies, word) { text throws(ParseError) in try TypedText.network(text) }
        }
        configuration.upgradeURL = url(.upgradeURL)
        configuration.redis = secret(.redisURL).flatMap { $0.isEmpty ? nil : endpoint($0) }
        configuration.rateLimitFailure = LimitFailureMode(name: choice(.rateLimitFailure) ?? "") ?? .local
    }

    private mutating func readDelivery() {
        configuration.mailServer = takeSecret(.smtpURL) { text throws(ParseError) in try MailServer(text) }
        configuration.mailServerOrigin = values.secret(.smtpURL)?.origin ?? .builtIn
        let sender = text(.mailFrom)
        if !sender.isEmpty {
            configuration.mailFrom = take(.mailFrom, sender) { text throws(ParseError) in try Sender(text) }
        } else if configuration.mailServer != nil {
            secretFault(.smtpURL, "has no sender beside it, set TOLLGATE_MAIL_FROM like Example <no-reply@example.org>")
        }
        configuration.smsURL = takeSecret(.smsURL) { text throws(ParseError) in try TypedText.webURL(text) }
        configuration.resetURL = url(.resetURL)
    }

    private mutating func readRest() {
        configuration.workers = values.entry(.workers).value.isEmpty ? mark(.workers, nil) : count(.workers)
        configuration.dataDirectory = text(.dataDirectory)
        configuration.tokenCacheEntries = count(.tokenCache) ?? 0
        configuration.headerTimeoutMilliseconds = UInt32(duration(.headerTimeout) ?? 0)
        configuration.bodyTimeoutMilliseconds = UInt32(duration(.bodyTimeout) ?? 0)
        configuration.sendTimeoutMilliseconds = UInt32(duration(.sendTimeout) ?? 0)
        configuration.idleTimeoutMilliseconds = UInt32(duration(.idleTimeout) ?? 0)
        configuration.drainTimeoutMilliseconds = UInt32(duration(.drainTimeout) ?? 0)
        configuration.maxConnections = count(.maxConnections) ?? 0
        configuration.logLevel = LogLevel(rawValue: choice(.log) ?? "") ?? .info
        configuration.accessLog = AccessLogFormat(rawValue: choice(.accessLog) ?? "") ?? .json
    }
}

// MARK: - One row each

extension ConfigurationReader {
    mutating func fault(_ setting: Setting, _ message: String) {
        let entry = values.entry(setting)
        findings.fault(Finding(entry.origin, entry.name, message))
    }

    private mutating func mark<Value>(_ setting: Setting, _ value: Value) -> Value {
        read.insert(setting.name)
        return value
    }

    private mutating func text(_ setting: Setting) -> String { mark(setting, values.entry(setting).value) }

    mutating func words(_ setting: Setting) -> [String] {
        text(setting).split(whereSeparator: { $0 == " " || $0 == "\t" }).map(String.init)
    }

    /// `text` of a setting as `read` takes it, or a fault that shows it.
    mutating func take<Value>(
        _ setting: Setting, _ text: String, _ read: (String) throws(ParseError) -> Value
    ) -> Value? {
        do {
            return try read(text)
        } catch {
            fault(setting, "\(quoted(text)) \(error.text)")
            return nil
        }
    }

    private mutating func count(_ setting: Setting) -> Int? {
        guard case .count(let range) = setting.type else { preconditionFailure("\(setting.name) is no count") }
        return take(setting, text(setting)) { text throws(ParseError) in try TypedText.count(text, range) }
    }

    /// Milliseconds.
    mutating func duration(_ setting: Setting) -> UInt64? {
        guard case .duration(let range) = setting.type else { preconditionFailure("\(setting.name) is no duration") }
        return take(setting, text(setting)) { text throws(ParseError) in try TypedText.duration(text, range) }
    }

    mutating func choice(_ setting: Setting) -> String? {
        guard case .choice(let choices) = setting.type else { preconditionFailure("\(setting.name) is no choice") }
        return take(setting, text(setting)) { text throws(ParseError) in try TypedText.choice(text, choices) }
    }

    mutating func url(_ setting: Setting) -> String? {
        let text = text(setting)
        guard !text.isEmpty else { return nil }
        return take(setting, text) { text throws(ParseError) in try TypedText.webURL(text) }
    }

    mutating func secret(_ setting: Setting) -> [UInt8]? { mark(setting, values.secret(setting)?.bytes) }

    /// A secret as `read` takes it, or a fault that does not show it.
    private mutating func takeSecret<Value>(_ setting: Setting, _ read: (String) throws(ParseError) -> Value) -> Value? {
        guard let bytes = secret(setting) else { return nil }
        do {
            return try read(bytes.rawBytes.text)
        } catch {
            secretFault(setting, error.text)
            return nil
        }
    }

    private mutating func listeners(_ setting: Setting, allowsProxy: Bool = true) -> [ListenerDeclaration] {
        let (listeners, found) = ListenerLine.parse(mark(setting, values.entry(setting)), allowsProxy: allowsProxy)
        findings.add(found)
        return listeners
    }

    /// The well-named entries of a family: what a name becomes in logs, headers and files is plain.
    mutating func family(_ setting: Setting) -> [(name: String, entry: EnvEntry)] {
        mark(setting, values.family(setting)).filter { name, entry in
            let suffix = entry.name.utf8.dropFirst(setting.name.utf8.count)
            let isPlain = suffix.count <= 64 && suffix.allSatisfy { byte in
                byte.isASCIIDigit || byte == UInt8(ascii: "_") || (65...90).contains(byte)
            }
            if !isPlain {
                let message = "has a name with more than capitals, digits and _, write one like \(setting.name)MY_API"
                findings.fault(Finding(entry.origin, entry.name, message))
            }
            return isPlain
        }
    }

    private mutating func tiers() -> TierList {
        let names = words(.tiers)
        do {
            return try TierList(names)
        } catch {
            fault(.tiers, error.message)
            return .standard
        }
    }
}

/// `1 file`, `2 files`.
func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }
