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

    /// Stable word for logs and metrics.
    package var reason: StaticString { row.reason }
    package var message: StaticString { row.message }

    private var row: (reason: StaticString, message: StaticString) {
        switch self {
        case .notAbsolute: ("path_not_absolute", "The path does not begin with a slash.")
        case .badCharacter: ("path_bad_character", "The path holds a character that must be percent-encoded.")
        case .badEncoding: ("path_bad_encoding", "The path holds a broken percent-encoding.")
        case .aboveRoot: ("path_above_root", "The path leads above the root.")
        case .backslash: ("path_backslash", "The path holds a backslash.")
        case .encodedSlash: ("path_encoded_slash", "The path holds an encoded slash.")
        case .encodedBackslash: ("path_encoded_backslash", "The path holds an encoded backslash.")
        case .encodedNul: ("path_encoded_nul", "The path holds an encoded NUL.")
        case .doubledEncoding: ("path_doubled_encoding", "The path holds a doubled percent-encoding.")
        case .parameterisedDots: ("path_parameterised_dots", "The path holds a dot segment with parameters.")
        case .hiddenRoute: ("path_hidden_route", "The path without its parameters belongs to another route.")
        case .hiddenStricterRoute:
            (
                "path_hidden_stricter_route",
                "The path without regard to case, its last slash and blanks at its end belongs to a stricter route."
            )
        case .notCanonical:
            ("path_not_canonical", "The path as it was sent belongs to another route than its canonical form, or has dot segments.")
        }
    }
}
