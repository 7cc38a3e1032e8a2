/// How the end of a message's content is found (RFC 9112 §6.3).
package enum BodyFraming: Equatable, Sendable {
    /// There is no content.
    case none
    /// Exactly so many bytes.
    case length(UInt64)
    case chunked
    /// Everything until the connection closes; only in responses.
    case untilClose

    /// Written out so that other modules inline it.
    @inlinable package static func == (left: BodyFraming, right: BodyFraming) -> Bool {
        switch (left, right) {
        case (.none, .none), (.chunked, .chunked), (.untilClose, .untilClose): true
        case (.length(let left), .length(let right)): left == right
        case (.none, _), (.length, _), (.chunked, _), (.untilClose, _): false
        }
    }

    /// Whether any content may come.
    package var hasContent: Bool {
        switch self {
        case .none: false
        case .length(let length): length > 0
        case .chunked, .untilClose: true
        }
    }

    /// Whether a Content-Length may stand beside it (RFC 9112 §6.2).
    package var mayHaveLength: Bool {
        switch self {
        case .none, .length: true
        case .chunked, .untilClose: false
        }
    }

    /// The framing in which such content is forwarded to a peer of this version. A stream of HTTP/2 ends content of any length.
    package func relayed(to version: HTTPVersion) -> BodyFraming {
        switch (self, version) {
        case (.none, _), (.length, _): self
        case (.chunked, .http11), (.untilClose, .http11): .chunked
        case (.chunked, .http10), (.untilClose, .http10), (.chunked, .http2), (.untilClose, .http2): .untilClose
        }
    }
}
