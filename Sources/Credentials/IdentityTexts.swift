import Wire

/// The string claims that make up an identity, as slices of a buffer; a missing claim is an empty slice.
struct IdentityTexts {
    /// The longest claim in bytes that may become a header.
    static let maximumBytes = 256

    let userID: Slice
    let email: Slice
    /// `name` (OpenID Connect Core §5.1).
    let name: Slice
    let tier: Slice
    let sessionID: Slice
    let actorType: Slice
    let actorID: Slice
    let tokenID: Slice

    /// Copies the claims into `bytes`. The user claim must be a non-empty string; where it is not `sub` (RFC 7519 §4.1.2), it may be
    /// a whole number, which counts as its digits. Other claims of the wrong type count as
    /// absent. A claim that is not safe in a header refuses the token, except `jti` and `name`, which say nothing of who it is: they are
    /// dropped.
    init(_ claims: borrowing JSONMembers, _ rules: IssuerRules, into bytes: inout ByteBuffer) throws(TokenFault) {
        bytes.removeAll()
        userID = claims.copyUser(rules.userClaim, to: &bytes)
        guard !userID.isEmpty, userID.count <= Self.maximumBytes else { throw .noSubject }
        email = claims.copyText(rules.emailClaim, to: &bytes)
        tier = claims.copyText(rules.tierClaim, to: &bytes)
        sessionID = claims.copyText("sid", to: &bytes)
        actorType = claims.copyText("actor_type", to: &bytes)
        actorID = claims.copyText("actor_id", to: &bytes)
        try Self.check(userID, bytes)
        try Self.check(email, bytes)
        try Self.check(tier, bytes)
        try Self.check(sessionID, bytes)
        try Self.check(actorType, bytes)
        try Self.check(actorID, bytes)
        let name = claims.copyText("name", to: &bytes)
        self.name = Self.fitsHeader(name, bytes) ? name : Slice()
        let tokenID = claims.copyText("jti", to: &bytes)
        self.tokenID = Self.fitsHeader(tokenID, bytes) ? tokenID : Slice()
    }

    private static func check(_ text: Slice, _ bytes: borrowing ByteBuffer) throws(TokenFault) {
        guard fitsHeader(text, bytes) else { throw .unsafeClaim }
    }

    private static func fitsHeader(_ text: Slice, _ bytes: borrowing ByteBuffer) -> Bool {
        text.count <= maximumBytes && isHeaderText(bytes.readable[text])
    }

    /// Whether `text` (UTF-8) passes through a header field unchanged (RFC 9110 §5.5): no control characters (C0, DEL, C1) and
    /// no space at either end, which a recipient would trim.
    static func isHeaderText(_ text: RawSpan) -> Bool {
        let count = text.byteCount
        guard count > 0 else { return true }
        guard text[0] != 0x20, text[count - 1] != 0x20 else { return false }
        for offset in 0..<count {
            let byte = text[offset]
            if byte < 0x20 || byte == 0x7F { return false }
            if byte == 0xC2 && offset + 1 < count && text[offset + 1] < 0xA0 { return false }
        }
        return true
    }
}

extension JSONMembers {
    /// Appends the string claim `name` to `bytes` and returns its slice there; empty if it is absent or no string.
    fileprivate func copyText(_ name: RawSpan, to bytes: inout ByteBuffer) -> Slice {
        guard case .string(let text)? = self[name] else { return Slice() }
        let start = bytes.count
        append(text, to: &bytes)
        return Slice(start: start, count: bytes.count - start)
    }

    fileprivate func copyText(_ name: [UInt8], to bytes: inout ByteBuffer) -> Slice {
        copyText(name.rawBytes, to: &bytes)
    }

    /// The same for the user claim.
    fileprivate func copyUser(_ name: [UInt8], to bytes: inout ByteBuffer) -> Slice {
        guard case .number(let slice)? = self[name.rawBytes], !name.rawBytes.equals("sub") else { return copyText(name, to: &bytes) }
        let digits = source(slice)
        for offset in 0..<digits.byteCount where !digits[offset].isASCIIDigit { return Slice() }
        bytes.append(digits)
        return Slice(start: bytes.count - digits.byteCount, count: digits.byteCount)
    }

    fileprivate func copyText(_ name: StaticString, to bytes: inout ByteBuffer) -> Slice {
        copyText(name.rawBytes, to: &bytes)
    }
}
