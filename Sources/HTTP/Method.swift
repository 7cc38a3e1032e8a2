import Wire

/// A request method (RFC 9110 §9). Names are case-sensitive; what is not listed is `other`, and its text is in the head.
@frozen
public enum Method: UInt8, Sendable, CaseIterable {
    case get, head, post, put, delete, patch, options, trace, connect, other

    /// Whether repeating the request has the effect of sending it once (RFC 9110 §9.2.2).
    @inlinable public var isIdempotent: Bool {
        switch self {
        case .get, .head, .put, .delete, .options, .trace: true
        case .post, .patch, .connect, .other: false
        }
    }

    /// Whether the request asks for no change (RFC 9110 §9.2.1).
    @inlinable public var isSafe: Bool {
        switch self {
        case .get, .head, .options, .trace: true
        case .post, .put, .delete, .patch, .connect, .other: false
        }
    }

    /// The method that `name` spells, `other` for every token that is not listed.
    package init(_ name: RawSpan) {
        self = .other
        for method in Method.allCases where method != .other && name.equals(method.text) { self = method }
    }

    /// The name on the wire; empty for `other`.
    package var text: StaticString {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .delete: "DELETE"
        case .patch: "PATCH"
        case .options: "OPTIONS"
        case .trace: "TRACE"
        case .connect: "CONNECT"
        case .other: ""
        }
    }
}
