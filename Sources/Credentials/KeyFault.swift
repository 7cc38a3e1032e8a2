/// Why a key, a key set or a key file cannot be used, in words for the operator. It names the key, never its secret
/// parts.
package struct KeyFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let message: String
    /// Whether the private key can be computed from the public one, so that anybody can sign.
    package let isForgeable: Bool

    package init(_ message: String, isForgeable: Bool = false) {
        self.message = message
        self.isForgeable = isForgeable
    }

    package var description: String { message }
}
