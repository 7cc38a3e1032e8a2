/// The reason why a key, a key set or a key file is refused, as a message for the operator. It names the key but never contains
/// secret parts.
package struct KeyFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let message: String
    /// Whether the private key can be computed from the public one, so that tokens can be forged.
    package let isForgeable: Bool

    package init(_ message: String, isForgeable: Bool = false) {
        self.message = message
        self.isForgeable = isForgeable
    }

    package var description: String { message }
}
