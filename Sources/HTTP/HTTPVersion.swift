/// The protocol version of a request.
package enum HTTPVersion: UInt8, Sendable {
    case http10, http11, http2

    /// As in access logs.
    package var text: StaticString {
        switch self {
        case .http10: "HTTP/1.0"
        case .http11: "HTTP/1.1"
        case .http2: "HTTP/2"
        }
    }
}
