/// Names a stream of an HTTP/2 connection (RFC 9113 §5.1.1).
package struct StreamID: Hashable, Sendable {
    package let number: UInt32

    /// No stream: the connection itself has this number.
    package static let none = StreamID(number: 0)
}
