import Wire

/// The parts of a token's header (RFC 7515 §4) that count. Keys that a token brings along or points to (`jwk`, `jku`,
/// `x5c`, `x5u`) are not looked at: who sends a token does not say whom we trust.
struct TokenHeader: ~Copyable {
    private var members = JSONMembers()
    private(set) var algorithm = SigningAlgorithm.HS256
    private(set) var hasKeyID = false
    private var keyIDBytes = ByteBuffer()
    /// The letters that this was read from; empty if that failed. All tokens of one key begin alike, and what they
    /// spell does not depend on anything else.
    private var letters = ByteBuffer()

    /// The header's `kid`, if it has one.
    var keyID: RawSpan { @_lifetime(borrow self) get { keyIDBytes.readable } }

    /// Reads the header that `letters` spell; after a fault the rest of this value means nothing.
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
        try loadKeyID()
    }

    /// `alg` before all else: what is not on the list is not worth another look.
    private static func algorithm(_ members: borrowing JSONMembers) throws(TokenFault) -> SigningAlgorithm {
        guard case .string(let name)? = members["alg"] else { throw .unsupportedAlgorithm }
        for algorithm in SigningAlgorithm.allCases where members.text(name, equals: algorithm.nameBytes) {
            return algorithm
        }
        throw .unsupportedAlgorithm
    }

    /// `crit` names what must be understood, and nothing is (RFC 7515 §4.1.11); `b64` false (RFC 7797) changes what is
    /// signed and should stand in `crit`, but is not let through without it either.
    private static func refuseExtensions(_ members: borrowing JSONMembers) throws(TokenFault) {
        guard members["crit"] == nil else { throw .criticalExtension }
        switch members["b64"] {
        case nil, .bool(true)?: return
        case .bool(false)?, .string?, .number?, .null?, .array?, .object?: throw .criticalExtension
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
        case .number?, .bool?, .null?, .array?, .object?: throw .malformed
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
