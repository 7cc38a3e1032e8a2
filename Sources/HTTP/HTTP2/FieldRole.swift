import Wire

/// The part that a field plays in a field section, told by its name (RFC 9113 §8.2, §8.3).
enum FieldRole: UInt8, BitwiseCopyable {
    /// A field that is only passed on.
    case regular
    case authorization, cookie, host, te, contentLength
    case method, scheme, authority, path, status, tunnelProtocol
    case unknownPseudoField
    /// Has no meaning but in HTTP/1 (RFC 9113 §8.2.2).
    case connectionSpecific
    case upperCaseName, invalidName

    fileprivate static func pseudoField(_ name: RawSpan) -> FieldRole {
        if name.equals(":method") { return .method }
        if name.equals(":scheme") { return .scheme }
        if name.equals(":authority") { return .authority }
        if name.equals(":path") { return .path }
        if name.equals(":protocol") { return .tunnelProtocol }
        return name.equals(":status") ? .status : .unknownPseudoField
    }

    /// The role of a field whose name is not short, plain and in lower case.
    fileprivate static func unusual(_ name: RawSpan) -> FieldRole {
        guard ByteClass.areTokens(name, 0..<name.byteCount), !name.resemblesFraming else { return .invalidName }
        for offset in 0..<name.byteCount where name[offset] != name[offset].lowercasedASCII { return .upperCaseName }
        return .regular
    }

    fileprivate init(_ name: FieldName) {
        switch name {
        case .connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade: self = .connectionSpecific
        case .authorization: self = .authorization
        case .cookie: self = .cookie
        case .host: self = .host
        case .te: self = .te
        case .contentLength: self = .contentLength
        case .other, .proxyAuthorization, .proxyAuthenticate, .trailer, .expect, .xForwardedFor, .xForwardedProto,
            .xForwardedHost, .forwarded, .via, .xRequestID, .traceparent, .tracestate, .xInternalKey, .xRefreshToken, .contentType,
            .contentEncoding, .contentRange, .accept, .acceptEncoding, .acceptLanguage, .acceptRanges, .range, .ifRange, .ifMatch,
            .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .etag, .lastModified, .vary, .cacheControl, .pragma, .age, .expires,
            .userAgent, .referer, .origin, .date, .server, .location, .setCookie, .wwwAuthenticate, .retryAfter, .rateLimit,
            .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset, .xNewAccessToken, .xNewRefreshToken,
            .xNewTokenExpiresAt:
            self = .regular
        }
    }

    /// The pseudo-field that has this role; nil for other fields.
    @inline(__always)
    var pseudoField: PseudoField? {
        switch self {
        case .method: .method
        case .scheme: .scheme
        case .authority: .authority
        case .path: .path
        case .status: .status
        case .tunnelProtocol: .tunnelProtocol
        case .regular, .authorization, .cookie, .host, .te, .contentLength, .unknownPseudoField, .connectionSpecific, .upperCaseName,
            .invalidName:
            nil
        }
    }
}

/// The name of a field in a section: the part that it plays, and the recognised name.
struct FieldIdentity: BitwiseCopyable {
    let role: FieldRole
    /// `other` for pseudo-fields.
    let known: FieldName

    init(_ name: RawSpan, _ index: FieldNameIndex) {
        let count = name.byteCount
        guard count > 0, name[0] != UInt8(ascii: ":") else {
            self.init(count > 0 ? .pseudoField(name) : .invalidName, .other)
            return
        }
        guard count <= WordTriple.longest else {
            self.init(.unusual(name), .other)
            return
        }
        let words = WordTriple(name, 0, count)
        guard words.isPlainName(count), words.isLowerCase(count) else {
            self.init(.unusual(name), .other)
            return
        }
        let known = index.find(words, count)
        self.init(FieldRole(known), known)
    }

    private init(_ role: FieldRole, _ known: FieldName) {
        self.role = role
        self.known = known
    }
}

extension WordTriple {
    /// Whether a plain name of `count` bytes has no capital: of letters, digits and `-` only these lack the bit 0x20.
    @inline(__always)
    func isLowerCase(_ count: Int) -> Bool {
        let small = ByteScan.spread(0x20)
        let both = (first | ByteScan.plainFilling(min(count, 8))) & (count > 8 ? last : small) & (count > 16 ? second : small)
        return both & small == small
    }
}
