/// Field names that some part of the gateway acts on, and those so common that knowing them saves work.
///
/// At most 64, so that a set of them is one word.
@frozen
public enum FieldName: UInt8, Sendable, CaseIterable {
    case other = 0
    // Framing, routing and hop-by-hop.
    case host, contentLength, transferEncoding, connection, keepAlive, proxyConnection
    case proxyAuthorization, proxyAuthenticate, te, trailer, upgrade, expect
    // Identity and forwarding.
    case authorization, cookie, xForwardedFor, xForwardedProto, xForwardedHost, forwarded, via
    case xRequestID, traceparent, tracestate, xInternalKey, xRefreshToken
    // Content and negotiation.
    case contentType, contentEncoding, contentRange, accept, acceptEncoding, acceptLanguage, acceptRanges
    case range, ifRange, ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince
    case etag, lastModified, vary, cacheControl, pragma, age, expires
    // Requests.
    case userAgent, referer, origin
    // Responses.
    case date, server, location, setCookie, wwwAuthenticate, retryAfter
    case rateLimit, rateLimitPolicy, xRateLimitLimit, xRateLimitRemaining, xRateLimitReset
    case xNewAccessToken, xNewRefreshToken, xNewTokenExpiresAt

    /// Whether the field is for one connection only and never forwarded (RFC 9110 §7.6.1).
    @inlinable public var isHopByHop: Bool {
        let connection = Self.connection.bit | Self.keepAlive.bit | Self.proxyConnection.bit
        let proxy = Self.proxyAuthorization.bit | Self.proxyAuthenticate.bit
        let transfer = Self.te.bit | Self.transferEncoding.bit | Self.upgrade.bit
        return bit & (connection | proxy | transfer) != 0
    }

    /// The field's bit in a set of field names.
    @inlinable public var bit: UInt64 { 1 &<< UInt64(rawValue) }

    /// The name as it is usually written; empty for `other`.
    package var text: StaticString {
        switch self {
        case .other: ""
        case .host: "Host"
        case .contentLength: "Content-Length"
        case .transferEncoding: "Transfer-Encoding"
        case .connection: "Connection"
        case .keepAlive: "Keep-Alive"
        case .proxyConnection: "Proxy-Connection"
        case .proxyAuthorization: "Proxy-Authorization"
        case .proxyAuthenticate: "Proxy-Authenticate"
        case .te: "TE"
        case .trailer: "Trailer"
        case .upgrade: "Upgrade"
        case .expect: "Expect"
        case .authorization: "Authorization"
        case .cookie: "Cookie"
        case .xForwardedFor: "X-Forwarded-For"
        case .xForwardedProto: "X-Forwarded-Proto"
        case .xForwardedHost: "X-Forwarded-Host"
        case .forwarded: "Forwarded"
        case .via: "Via"
        case .xRequestID: "X-Request-Id"
        case .traceparent: "traceparent"
        case .tracestate: "tracestate"
        case .xInternalKey: "X-Internal-Key"
        case .xRefreshToken: "X-Refresh-Token"
        case .contentType: "Content-Type"
        case .contentEncoding: "Content-Encoding"
        case .contentRange: "Content-Range"
        case .accept: "Accept"
        case .acceptEncoding: "Accept-Encoding"
        case .acceptLanguage: "Accept-Language"
        case .acceptRanges: "Accept-Ranges"
        case .range: "Range"
        case .ifRange: "If-Range"
        case .ifMatch: "If-Match"
        case .ifNoneMatch: "If-None-Match"
        case .ifModifiedSince: "If-Modified-Since"
        case .ifUnmodifiedSince: "If-Unmodified-Since"
        case .etag: "ETag"
        case .lastModified: "Last-Modified"
        case .vary: "Vary"
        case .cacheControl: "Cache-Control"
        case .pragma: "Pragma"
        case .age: "Age"
        case .expires: "Expires"
        case .userAgent: "User-Agent"
        case .referer: "Referer"
        case .origin: "Origin"
        case .date: "Date"
        case .server: "Server"
        case .location: "Location"
        case .setCookie: "Set-Cookie"
        case .wwwAuthenticate: "WWW-Authenticate"
        case .retryAfter: "Retry-After"
        case .rateLimit: "RateLimit"
        case .rateLimitPolicy: "RateLimit-Policy"
        case .xRateLimitLimit: "X-RateLimit-Limit"
        case .xRateLimitRemaining: "X-RateLimit-Remaining"
        case .xRateLimitReset: "X-RateLimit-Reset"
        case .xNewAccessToken: "X-New-Access-Token"
        case .xNewRefreshToken: "X-New-Refresh-Token"
        case .xNewTokenExpiresAt: "X-New-Token-Expires-At"
        }
    }
}
