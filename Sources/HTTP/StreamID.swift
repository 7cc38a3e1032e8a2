/// Names one exchange of a connection. HTTP/1 carries one at a time, always `http1`; HTTP/2 numbers them (RFC 9113 §5.1.1).
package struct StreamID: Hashable, Sendable {
    package let number: UInt32

    package static let http1 = StreamID(number: 0)
}
