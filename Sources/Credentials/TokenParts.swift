import Wire

/// The three parts of a token in compact serialisation (RFC 7515 §7.1), still in base64url.
struct TokenParts {
    /// The maximum length of a token in bytes; longer ones are refused unread.
    static let maximumBytes = 16 * 1024
    /// The maximum length of a decoded header in bytes.
    static let maximumHeaderBytes = 4 * 1024

    let header: Slice
    let payload: Slice
    let signature: Slice

    /// The signing input (RFC 7515 §5.1): header, dot, payload.
    var signed: Slice { Slice(start: 0, count: payload.end) }

    init(
        _ token: RawSpan, maximumBytes: Int = Self.maximumBytes, maximumHeaderBytes: Int = Self.maximumHeaderBytes
    ) throws(TokenFault) {
        guard token.byteCount <= maximumBytes else { throw .tooLarge }
        let dot = UInt8(ascii: ".")
        guard let first = token.firstIndex(of: dot), let second = token.firstIndex(of: dot, from: first + 1),
            token.firstIndex(of: dot, from: second + 1) == nil
        else { throw .malformed }
        header = Slice(start: 0, count: first)
        payload = Slice(start: first + 1, count: second - first - 1)
        signature = Slice(start: second + 1, count: token.byteCount - second - 1)
        guard Base64URL.decodedCount(first) <= maximumHeaderBytes else { throw .tooLarge }
    }
}

extension JSONMembers {
    /// The claims of a token whose signature has been verified.
    init(claimsOf token: RawSpan) throws(TokenFault) {
        self.init()
        let parts = try TokenParts(token)
        do throws(Fault) {
            try load(base64URL: token[parts.payload], takesHalves: true)
        } catch {
            throw TokenFault(error)
        }
    }
}
