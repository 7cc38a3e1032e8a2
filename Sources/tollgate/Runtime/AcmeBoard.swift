internal import Accounts
internal import Acme
internal import Credentials
internal import Transport
internal import Wire

/// A certificate that was issued, and its key.
struct KeptCertificate: Sendable {
    /// Of the authority that issued it.
    let directory: String
    let key: [UInt8]
    let certificate: IssuedCertificate

    init(directory: String, key: [UInt8], certificate: IssuedCertificate) {
        (self.directory, self.key, self.certificate) = (directory, key, certificate)
    }

    /// nil for a text that is not one of `text`.
    init?(_ text: [UInt8]) {
        let json = JSONTree(text.rawBytes) ?? .null
        guard let directory = json["directory"].text, let key = json["key"].text, let chain = json["chain"].text,
            let certificate = IssuedCertificate(pem: Array(chain.utf8))
        else { return nil }
        self.init(directory: directory, key: Array(key.utf8), certificate: certificate)
    }

    var text: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.field("directory", directory)
        json.field("key", key.rawBytes)
        json.field("chain", certificate.pem.rawBytes)
        json.endObject()
        return json.finish().readable.array
    }
}

/// The gateways' common knowledge of issued certificates: live switches of a database, secrets sealed. Pure.
struct AcmeBoard: Sendable {
    static let kind = "acme"

    /// Whether it is the account or a certificate, which outlast a restart without the database.
    static func isKept(_ item: LiveSwitch) -> Bool {
        item.name == Subject.account.name || item.name.hasPrefix(Subject.certificate("").name)
    }

    /// The subjects of the switches.
    enum Subject: Hashable, Sendable {
        /// The sealed key of the account at the authority.
        case account
        /// Who orders; it ends by itself.
        case lease
        /// By the name of the certificate.
        case certificate(String)
        case challenge(String)
        case state(String)
        /// An operator wants an order at once.
        case wish(String)

        var name: String {
            let subject =
                switch self {
                case .account: "account"
                case .lease: "lease"
                case .certificate(let name): "certificate/\(name)"
                case .challenge(let name): "challenge/\(name)"
                case .state(let name): "state/\(name)"
                case .wish(let name): "wish/\(name)"
                }
            return SwitchBoard.name(AcmeBoard.kind, of: subject)
        }
    }

    private let switches: [String: LiveSwitch]
    private let box: SealedBox
    /// By name, those that the secret opens.
    private let certificates: [String: KeptCertificate]

    /// `secret` is the refresh token secret, from which the key is derived.
    init(_ switches: [LiveSwitch], secret: [UInt8]) {
        self.switches = Dictionary(switches.map { ($0.name, $0) }) { $1 }
        let box = SealedBox(secret: secret, label: "tollgate certificates")
        self.box = box
        let folder = Subject.certificate("").name
        let kept = switches.filter { $0.name.hasPrefix(folder) }.compactMap { item in
            Self.open(item, box).flatMap { KeptCertificate($0) }.map { (String(item.name.dropFirst(folder.count)), $0) }
        }
        certificates = Dictionary(kept) { $1 }
    }

    /// Whether both have listeners serve the same.
    func serves(like other: AcmeBoard) -> Bool {
        let folders = [Subject.certificate("").name, Subject.challenge("").name]
        let served = { (board: AcmeBoard) in board.switches.filter { item in folders.contains { item.key.hasPrefix($0) } } }
        return served(self) == served(other)
    }

    /// The text of a subject that has not ended.
    func text(_ subject: Subject, at now: WallTime) -> String? { current(subject, at: now)?.value }

    /// For the next change; 0 if it is not set.
    func version(_ subject: Subject, at now: WallTime) -> Int64 { current(subject, at: now)?.version ?? 0 }

    private func current(_ subject: Subject, at now: WallTime) -> LiveSwitch? {
        switches[subject.name].flatMap { $0.hasEnded(at: now) ? nil : $0 }
    }

    // MARK: sealed

    func seal(_ secret: [UInt8], _ subject: Subject) -> String { Base64URL.encode(box.seal(secret, as: subject.name).rawBytes) }

    private static func open(_ item: LiveSwitch, _ box: SealedBox) -> [UInt8]? {
        item.value.withRawBytes { Base64URL.decode($0) }.flatMap { box.open($0, as: item.name) }
    }

    /// Whether there is something sealed that the secret does not open.
    var isSealedOtherwise: Bool { switches[Subject.account.name] != nil && account == nil }

    var account: AcmeAccount? {
        switches[Subject.account.name].flatMap { Self.open($0, box) }.flatMap { pem in
            // A text that is no key counts as one that is sealed otherwise.
            (try? SigningKey(pem: pem.rawBytes, algorithm: .ES256)).map { AcmeAccount(key: $0) }
        }
    }

    func certificate(_ name: String) -> KeptCertificate? { certificates[name] }

    // MARK: open

    func state(_ name: String, at now: WallTime) -> RenewalState {
        text(.state(name), at: now).map { RenewalState(text: $0) } ?? RenewalState()
    }

    /// The challenges under way for these names.
    func challenges(_ names: [String], at now: WallTime) -> [AcmeChallenge] {
        names.compactMap { name in
            let parts = (text(.challenge(name), at: now) ?? "").split(separator: " ").map(String.init)
            guard parts.count == 3, let kind = AcmeChallengeKind(rawValue: parts[0]) else { return nil }
            return AcmeChallenge(kind: kind, name: name, token: parts[1], authorization: parts[2])
        }
    }

    static func text(_ challenge: AcmeChallenge) -> String { "\(challenge.kind.rawValue) \(challenge.token) \(challenge.authorization)" }

    // MARK: when

    /// When an order for the name is due. A certificate of another authority's directory counts as none.
    func dueAt(_ name: String, directory: String, at now: WallTime) -> WallTime {
        let kept = certificate(name)
        let certificate = kept?.directory == directory ? kept?.certificate : nil
        return state(name, at: now).dueAt(certificate)
    }

    /// The first of the names for which an order is due, or that an operator wants.
    func due(_ names: [String], directory: String, at now: WallTime) -> String? {
        names.first { text(.wish($0), at: now) != nil || dueAt($0, directory: directory, at: now) <= now }
    }

    // MARK: serving

    /// The certificates and challenges of these names that listeners serve.
    func issued(_ names: [String], at now: WallTime) -> Certificates.Issued {
        var issued = Certificates.Issued()
        for name in names {
            guard let kept = certificate(name) else { continue }
            issued.pairs.append(TLSCertificatePair(name: name, certificate: kept.certificate.pem, key: kept.key))
            issued.expiries[name] = kept.certificate.expiresAt
        }
        for challenge in challenges(names, at: now) where challenge.kind == .tlsALPN {
            issued.challenges[challenge.serverName] = Self.response(to: challenge, at: now)
        }
        return issued
    }

    /// A certificate of its own key, which holds the digest that the authority looks for (RFC 8737 §3).
    private static func response(to challenge: AcmeChallenge, at now: WallTime) -> TLSCertificatePair? {
        do throws(KeyFault) {
            let key = try SigningKey.generate(.ES256)
            var draft = CertificateDraft(
                name: "acme challenge", notBefore: now.advanced(seconds: -3_600), notAfter: now.advanced(seconds: 86_400),
                isAuthority: false)
            (draft.names, draft.acmeDigest) = ([challenge.name], challenge.digest)
            return TLSCertificatePair(
                name: "the challenge for \(challenge.name)", certificate: try draft.selfSignedPEM(of: key), key: try key.pem())
        } catch {
            return nil
        }
    }
}
