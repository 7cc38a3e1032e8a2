/// Why a key, a key set or a key file cannot be used, in words for the operator. It names the key, never its secret
/// parts.
package struct KeyFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let message: String

    package init(_ message: String) { self.message = message }

    package var description: String { message }
}
