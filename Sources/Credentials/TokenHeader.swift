import Wire

/// A token's JOSE header (RFC 7515 §4): `alg`, `typ`, `kid` and extensions. Keys in or behind the header (`jwk`, `jku`, `x5c`, `x5u`)
/// are ignored, since a sender must not choose the key that verifies its token (RFC 8725 §3.10).
struct TokenHeader: ~Copyable {
    private var members = JSONMembers()
    private(set) var algorithm = SigningAlgorithm.HS256
    private(set) var hasKeyID = false
    private var keyIDBytes = ByteBuffer()
    /// The base64url text of the header loaded last; empty after a fault. Tokens of one key have the same header, so an equal
    /// text skips parsing.
    private var letters = ByteBuffer()

    /// `kid`; empty unless `hasKeyID`.
    var keyID: RawSpan { @_lifetime(borrow self) get { keyIDBytes.readable } }

    /// Parses a header in base64url; after a fault the other properties are invalid.
    mutating func load(_ letters: RawSpan) throws(TokenFault) {
        if letters.byteCount > 0 && letters.equals(self.letters.readable) { return }
        self.letters.removeAll()
        try read(letters)
        self.letters.append(letters)
    }

    private mutating func read(_ letters: RawSpan) throws(TokenFault) {
        do throws(JSONMembers.Fault) { try members.load(base64URL: letters) } catch { throw TokenFault(error) }
        algorithm = try Self.algorithm(members)
        try Self.refuseExtensions(members)
        try Self.refuseOtherTypes(members)
        try loadKeyID()
    }

    /// Refuses the tokens that gateways sign for upstreams and apps, whatever their keys and claims (RFC 8725 §3.11).
    private static func refuseOtherTypes(_ members: borrowing JSONMembers) throws(TokenFault) {
        guard case .string(let type)? = members["typ"] else { return }
        if members.text(type, equals: IdentityToken.type.rawBytes) || members.text(type, equals: EntitlementToken.type.rawBytes) {
            throw .notAnAccessToken
        }
    }

    /// `alg`, which is checked before anything else.
    static func algorithm(_ members: borrowing JSONMembers) throws(TokenFault) -> SigningAlgorithm {
        guard case .string(let name)? = members["alg"] else { throw .unsupportedAlgorithm }
        for algorithm in SigningAlgorithm.allCases where members.text(name, equals: algorithm.nameBytes) {
            return algorithm
        }
        if let other = SigningAlgorithm.EdDSA.otherName, members.text(name, equals: other.rawBytes) { return .EdDSA }
        throw .unsupportedAlgorithm
    }

    /// Refuses `crit`, since no extension is supported (RFC 7515 §4.1.11), and `b64` false (RFC 7797), which changes the signed
    /// bytes, even where `crit` does not list it.
    static func refuseExtensions(_ members: borrowing JSONMembers) throws(TokenFault) {
        guard members["crit"] == nil else { throw .criticalExtension }
        switch members["b64"] {
        case nil, .bool(true)?: return
        case .bool(false)?, .string?, .halved?, .number?, .null?, .array?, .object?: throw .criticalExtension
        }
    }

    private mutating func loadKeyID() throws(TokenFault) {
        keyIDBytes.removeAll()
        hasKeyID = false
        switch members["kid"] {
        case nil: return
        case .string(let text)?:
            members.append(text, to: &keyIDBytes)
            hasKeyID = true
        case .halved?, .number?, .bool?, .null?, .array?, .object?: throw .malformed
        }
    }
}

extension TokenFault {
    init(_ fault: JSONMembers.Fault) {
        switch fault {
        case .malformed: self = .malformed
        case .duplicateName: self = .duplicateMember
        }
    }
}
