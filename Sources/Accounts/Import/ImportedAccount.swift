package import Credentials
package import Wire

/// An account as the operator describes it: a line of an import, or `user create`. `ImportRule` decides what becomes of it.
package struct ImportedAccount: Sendable, Equatable {
    /// nil: a new one is made.
    package var id: UUID?
    package var email: EmailAddress?
    package var isEmailConfirmed = false
    package var username: Username?
    /// nil: its owner gets in by a code, a provider or an outside issuer.
    package var passwordHash: PasswordHash?
    /// One of the gateway's, nil for the lowest.
    package var tier: String?
    package var tierUntil: WallTime?
    /// nil: now.
    package var createdAt: WallTime?
    package var identities: [IdentityKey] = []
    package var origin = Origin.import

    /// The command that the account came by, for the audit log.
    package enum Origin: String, Sendable {
        case `import`, `operator`
    }

    package init() {}
}

/// The names that an import may use: the gateway's tiers in ascending order, the providers and the outside issuers.
package struct ImportRules: Sendable {
    package let tiers: [String]
    package let issuers: [String]
    package let providers: [Provider]
    /// The issuer whose subjects are the ids that are no UUIDs; nil where such an id is a fault.
    package let idIssuer: String?
    /// The issuer whose subjects the UUIDs are too; nil for none.
    package let uuidIssuer: String?

    /// `providers`: those that are set up, beside the documented ones.
    package init(tiers: [String], issuers: [String], providers: [Provider] = [], idIssuer: String?, uuidIssuer: String? = nil) {
        self.tiers = tiers
        self.issuers = issuers
        self.providers = Provider.documented + providers.filter { !Provider.documented.contains($0) }
        self.idIssuer = idIssuer
        self.uuidIssuer = uuidIssuer
    }
}

/// Why a line describes no account, as a sentence that names the field.
package struct ImportFault: Error, Equatable, Sendable {
    package let message: String
}

extension ImportedAccount {
    /// Bytes of a line at most.
    package static let maxLine = 65_536
    private static let maxIdentities = 16
    private static let fields = [
        "id", "email", "email_verified", "username", "password_hash", "tier", "tier_until", "created_at", "identities",
    ]

    /// Reads one line, a JSON object. Members that are `null` count as missing; a member that no account has is a fault, so
    /// that a misspelled one loses nothing.
    package init(line: RawSpan, _ rules: ImportRules) throws(ImportFault) {
        self.init()
        guard line.byteCount <= Self.maxLine else { throw ImportFault(message: "the line is longer than 64 KiB") }
        let value: ImportValue
        do throws(JSONFault) { value = try ImportValue(line) } catch { throw ImportFault(message: "the line is no JSON object") }
        var idText: String?
        for (name, value) in try value.members("the line") {
            if name == "id" { idText = try value.name(name) } else { try read(name, value, rules) }
        }
        if let idText { try setID(idText, rules) }
        try check(rules)
    }

    private mutating func read(_ name: String, _ value: ImportValue, _ rules: ImportRules) throws(ImportFault) {
        switch name {
        case "email": if let text = try value.text(name) { email = try Self.email(text) }
        case "email_verified": isEmailConfirmed = try value.flag(name)
        case "username": if let text = try value.text(name) { username = try Self.username(text) }
        case "password_hash": if let text = try value.text(name) { passwordHash = try Self.hash(text) }
        case "tier": if let text = try value.text(name) { tier = try Self.tier(text, rules) }
        case "tier_until": tierUntil = try value.time(name)
        case "created_at": createdAt = try value.time(name)
        case "identities":
            for element in try value.elements(name) { identities.append(try Self.identity(element, rules)) }
        default:
            throw ImportFault(message: "\(name) is no field of an account, the fields are \(Self.fields.joined(separator: ", "))")
        }
    }

    private mutating func setID(_ text: String, _ rules: ImportRules) throws(ImportFault) {
        id = UUID(parsing: text)
        if id != nil {
            let key = rules.uuidIssuer.flatMap(IdentitySource.init(trustLine:)).flatMap { IdentityKey($0, subject: text) }
            if let key, !identities.contains(key) { identities.append(key) }
            return
        }
        guard let issuer = rules.idIssuer.flatMap(IdentitySource.init(trustLine:)) else {
            throw ImportFault(message: "id is no UUID; name the outside issuer that it is of by --issuer NAME")
        }
        guard let key = IdentityKey(issuer, subject: text) else { throw ImportFault(message: "id is no name of 1 to 255 bytes") }
        identities.append(key)
    }

    private static func email(_ text: String) throws(ImportFault) -> EmailAddress {
        do throws(MalformedText) { return try EmailAddress(text) } catch { throw ImportFault(message: "email is no email address") }
    }

    package static func username(_ text: String) throws(ImportFault) -> Username? {
        do throws(MalformedText) {
            return try Username(text)
        } catch {
            throw ImportFault(message: "username holds control characters or is longer than 256 bytes")
        }
    }

    /// nil for the empty text and for what begins with `!`, which is how Django writes that there is no password.
    private static func hash(_ text: String) throws(ImportFault) -> PasswordHash? {
        if text.isEmpty || text.hasPrefix("!") { return nil }
        guard let hash = PasswordHash(parsing: text) else {
            throw ImportFault(message: "password_hash is of no kind that can be checked: \(PasswordHash.kinds)")
        }
        return hash
    }

    private static func tier(_ text: String, _ rules: ImportRules) throws(ImportFault) -> String? {
        guard let rank = rules.tiers.firstIndex(of: text) else {
            throw ImportFault(message: "tier is none of \(rules.tiers.joined(separator: ", "))")
        }
        return rank == 0 ? nil : text
    }

    private static func identity(_ value: ImportValue, _ rules: ImportRules) throws(ImportFault) -> IdentityKey {
        var (provider, subject): (String?, String?)
        for (name, value) in try value.members("an identity") {
            switch name {
            case "provider": provider = try value.text(name)
            case "subject": subject = try value.name(name)
            default: throw ImportFault(message: "\(name) is no field of an identity, the fields are provider and subject")
            }
        }
        guard let provider, let subject else { throw ImportFault(message: "an identity has a provider and a subject") }
        return try identity(provider, subject: subject, rules)
    }

    package static func identity(
        _ provider: String, subject: String, _ rules: ImportRules
    ) throws(ImportFault) -> IdentityKey {
        let known = rules.providers.map(\.rawValue) + rules.issuers
        let own = rules.providers.first { $0.rawValue == provider }.map(IdentitySource.init)
        guard known.contains(provider), let source = own ?? IdentitySource(trustLine: provider) else {
            throw ImportFault(message: "the provider of an identity is none of \(known.joined(separator: ", "))")
        }
        guard let key = IdentityKey(source, subject: subject) else {
            throw ImportFault(message: "the subject of an identity is no name of 1 to 255 bytes")
        }
        return key
    }

    /// The rules between fields.
    package func check(_ rules: ImportRules) throws(ImportFault) {
        guard id != nil || email != nil || !identities.isEmpty else { throw ImportFault(message: "the line has neither id nor email") }
        if isEmailConfirmed, email == nil { throw ImportFault(message: "email_verified needs an email") }
        if tierUntil != nil, tier == nil {
            throw ImportFault(message: "tier_until needs a tier above \(rules.tiers.first ?? "the lowest")")
        }
        guard identities.count <= Self.maxIdentities else {
            throw ImportFault(message: "more than \(Self.maxIdentities) identities")
        }
        guard Set(identities).count == identities.count else { throw ImportFault(message: "an identity stands there twice") }
    }
}
