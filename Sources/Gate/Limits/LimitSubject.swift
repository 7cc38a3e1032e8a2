import Credentials
import Wire

/// Subject kinds, by how hard it is for a client to have many. Counts of one kind never evict those of another
/// (`SharedLimiter`).
package enum SubjectKind: UInt8, CaseIterable, Sendable {
    /// User of a verified token.
    case user
    /// Session of a verified token.
    case session
    /// Client address, IPv6 by its /64.
    case address
    /// Value of a request field, which the client chooses.
    case header
    /// Address that makes sign-in attempts.
    case attemptAddress
    /// Name or recipient of sign-in attempts, whether or not it has an account.
    case attemptName
    /// Proof of possession for a token, which counts once.
    case proof
    /// The same at an endpoint that opens or renews sessions, where it may be by any key.
    case openProof
    /// Attestation of an app, which counts once.
    case attestation
    /// The whole deployment: a single subject, never evicted.
    case deployment

    /// Whether there is one use of each subject.
    package var countsOnce: Bool { self == .proof || self == .openProof || self == .attestation }
}

/// The subject's half of a `LimitKey`. A domain per kind keeps equal texts of different kinds apart.
enum LimitSubject {
    private static let userDomain: UInt64 = 1
    private static let sessionDomain: UInt64 = 2
    private static let addressDomain: UInt64 = 3
    private static let headerDomain: UInt64 = 4
    private static let policyDomain: UInt64 = 5
    private static let issuerDomain: UInt64 = 6
    private static let subjectDomain: UInt64 = 7
    private static let accountDomain: UInt64 = 8
    private static let emailDomain: UInt64 = 9
    private static let apiKeyDomain: UInt64 = 10
    private static let proofDomain: UInt64 = 11
    private static let attestationDomain: UInt64 = 12
    private static let unnamedAttestationDomain: UInt64 = 13

    /// The issuer is part of the key, because two issuers may use the same id.
    static func user(_ id: RawSpan, issuer: String, _ hash: KeyedHash) -> LimitKey {
        ofIssuer(issuer, id, userDomain, hash)
    }

    static func session(_ id: RawSpan, issuer: String, _ hash: KeyedHash) -> LimitKey {
        ofIssuer(issuer, id, sessionDomain, hash)
    }

    /// An issuer by its name in the policy, which no other has.
    static func issuer(_ name: String, _ hash: KeyedHash) -> LimitKey {
        name.withRawBytes { hash.hash128($0, domain: issuerDomain) }
    }

    /// A subject of the trust line of this name.
    static func subject(_ id: RawSpan, of line: String, _ hash: KeyedHash) -> LimitKey {
        ofIssuer(line, id, subjectDomain, hash)
    }

    static func account(_ id: UUID, _ hash: KeyedHash) -> LimitKey { hash.hash128(id.high, id.low, domain: accountDomain) }

    static func apiKey(_ id: UUID, _ hash: KeyedHash) -> LimitKey { hash.hash128(id.high, id.low, domain: apiKeyDomain) }

    static func proof(_ digest: UInt128, _ hash: KeyedHash) -> LimitKey {
        hash.hash128(UInt64(truncatingIfNeeded: digest >> 64), UInt64(truncatingIfNeeded: digest), domain: proofDomain)
    }

    /// By the token's `jti`. Without one by what is signed: of some signatures, anyone can make a second one that holds as well.
    static func attestation(_ token: VerifiedToken, _ text: RawSpan, issuer: String, _ hash: KeyedHash) -> LimitKey {
        guard token.tokenID.byteCount == 0 else { return ofIssuer(issuer, token.tokenID, attestationDomain, hash) }
        let dot = UInt8(ascii: ".")
        let end = text.firstIndex(of: dot).flatMap { text.firstIndex(of: dot, from: $0 + 1) } ?? text.byteCount
        return ofIssuer(issuer, text.extracting(first: end), unnamedAttestationDomain, hash)
    }

    static func email(_ text: RawSpan, _ hash: KeyedHash) -> LimitKey { hash.hash128(text, domain: emailDomain) }

    private static func ofIssuer(_ issuer: String, _ id: RawSpan, _ domain: UInt64, _ hash: KeyedHash) -> LimitKey {
        var bytes = ByteBuffer(capacity: issuer.utf8.count + id.byteCount + 8)
        bytes.append(hex: UInt64(issuer.utf8.count), digits: 8)
        bytes.append(issuer)
        bytes.append(id)
        return hash.hash128(bytes.readable, domain: domain)
    }

    @inline(__always)
    static func address(_ address: IPAddress, _ hash: KeyedHash) -> LimitKey {
        let counted = address.limitPrefix
        return hash.hash128(counted.high, counted.low, domain: addressDomain)
    }

    static func header(_ value: RawSpan, _ hash: KeyedHash) -> LimitKey {
        hash.hash128(value, domain: headerDomain)
    }

    /// The policy's half of a `LimitKey`: a limit's name, its rate and its subject.
    static func policy(_ name: String, _ rate: LimitRate, _ by: LimitBy, _ hash: KeyedHash) -> LimitKey {
        "\(rate.text) \(by.text) \(name)".withRawBytes { hash.hash128($0, domain: policyDomain) }
    }
}
