import Wire

/// A request method (RFC 9110 §9). Names are case-sensitive; what is not listed is `other`, its text in the head.
@frozen
public enum Method: UInt8, Sendable, CaseIterable {
    case get, head, post, put, delete, patch, options, trace, connect, other

    /// Whether the method is idempotent (RFC 9110 §9.2.2).
    @inlinable public var isIdempotent: Bool {
        switch self {
        case .get, .head, .put, .delete, .options, .trace: true
        case .post, .patch, .connect, .other: false
        }
    }

    /// Whether the method is safe (RFC 9110 §9.2.1).
    @inlinable public var isSafe: Bool {
        switch self {
        case .get, .head, .options, .trace: true
        case .post, .put, .delete, .patch, .connect, .other: false
        }
    }

    /// The method that `name` spells, `other` for every token that is not listed.
    package init(_ name: RawSpan) { self.init(name, 0, name.byteCount) }

    /// The method that the `count` bytes from `start` on spell.
    @inline(__always)
    init(_ bytes: RawSpan, _ start: Int, _ count: Int) {
        guard (3...7).contains(count) else {
            self = .other
            return
        }
        // The names as words, the first letter lowest.
        switch bytes.loadUpTo8(start, count) {
        case 0x0054_4547: self = .get
        case 0x4441_4548: self = .head
        case 0x5453_4F50: self = .post
        case 0x0054_5550: self = .put
        case 0x4554_454C_4544: self = .delete
        case 0x48_4354_4150: self = .patch
        case 0x53_4E4F_4954_504F: self = .options
        case 0x45_4341_5254: self = .trace
        case 0x54_4345_4E4E_4F43: self = .connect
        default: self = .other
        }
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
