/// Why a path is refused: each is something that two parsers may read differently.
package enum PathFault: UInt8, Error, CaseIterable, Sendable {
    case notAbsolute
    case badCharacter
    case badEncoding
    case aboveRoot
    case backslash
    case encodedSlash
    case encodedBackslash
    case encodedNul
    case doubledEncoding
    case parameterisedDots
    case hiddenRoute
    case hiddenStricterRoute
    /// Of a request that is only checked: the proxy forwards the path as it was sent.
    case notCanonical

    /// The sentence of the refusal.
    package var message: StaticString {
        switch self {
        case .notAbsolute: "The path does not begin with a slash."
        case .badCharacter: "The path holds a character that must be percent-encoded."
        case .badEncoding: "The path holds a broken percent-encoding."
        case .aboveRoot: "The path leads above the root."
        case .backslash: "The path holds a backslash."
        case .encodedSlash: "The path holds an encoded slash."
        case .encodedBackslash: "The path holds an encoded backslash."
        case .encodedNul: "The path holds an encoded NUL."
        case .doubledEncoding: "The path holds a doubled percent-encoding."
        case .parameterisedDots: "The path holds a dot segment with parameters."
        case .hiddenRoute: "The path without its parameters belongs to another route."
        case .hiddenStricterRoute:
            "The path without regard to case, its last slash and blanks at its end belongs to a stricter route."
        case .notCanonical:
            "The path as it was sent belongs to another route than its canonical form, or has dot segments."
        }
    }
}
