import Wire

/// Field names that some part of the gateway acts on, and those so common that knowing them saves work.
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
    case contentType, contentEncoding, contentRange, accept, acceptEncoding, acceptLanguage, acceptRanges, range, ifRange
    case ifMatch, ifNoneMatch, ifModifiedSince, ifUnmodifiedSince, etag, lastModified, vary, cacheControl, pragma, age, expires
    // Requests.
    case userAgent, referer, origin
    // Responses.
    case date, server, location, setCookie, wwwAuthenticate, retryAfter
    case rateLimit, rateLimitPolicy, xRateLimitLimit, xRateLimitRemaining, xRateLimitReset
    case xNewAccessToken, xNewRefreshToken, xNewTokenExpiresAt

    /// Whether the field is for one connection only and never forwarded (RFC 9110 §7.6.1).
    @inlinable public var isHopByHop: Bool {
        switch self {
        case .connection, .keepAlive, .proxyConnection, .proxyAuthorization, .proxyAuthenticate, .te, .transferEncoding,
            .upgrade:
            true
        case .other, .host, .contentLength, .trailer, .expect, .authorization, .cookie, .xForwardedFor, .xForwardedProto,
            .xForwardedHost, .forwarded, .via, .xRequestID, .traceparent, .tracestate, .xInternalKey, .xRefreshToken,
            .contentType, .contentEncoding, .contentRange, .accept, .acceptEncoding, .acceptLanguage, .acceptRanges, .range,
            .ifRange, .ifMatch, .ifNoneMatch, .ifModifiedSince, .ifUnmodifiedSince, .etag, .lastModified, .vary,
            .cacheControl, .pragma, .age, .expires, .userAgent, .referer, .origin, .date, .server, .location, .setCookie,
            .wwwAuthenticate, .retryAfter, .rateLimit, .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining,
            .xRateLimitReset, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt:
            false
        }
    }

    /// The field called `name`, in any mix of case.
    package static func recognise(_ name: RawSpan) -> FieldName { .other }
}
