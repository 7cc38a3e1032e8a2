/// Bounds on one field section, counted before a field is stored (RFC 9113 §6.5.2).
package struct FieldSectionLimits: Sendable, Equatable {
    /// Fields, pseudo-fields included; all cookie crumbs count as one.
    package var fields: Int
    /// The sum of name, value and 32 bytes for each field. A cookie crumb after the first adds its value and 2 bytes, as it is joined.
    package var bytes: Int
    /// Cookie crumbs: browsers keep up to 180 cookies of a site and send each as a field of its own (RFC 9113 §8.2.3).
    package var crumbs: Int

    package init(fields: Int = 100, bytes: Int = 32768, crumbs: Int = 256) {
        self.fields = fields
        self.bytes = bytes
        self.crumbs = crumbs
    }
}

/// A field section that is not served, though its block could be decoded: a fault of its stream, not of the connection.
package enum FieldSectionFault: UInt8, Error, Sendable, CaseIterable {
    // Over a limit.
    case tooManyFields, tooManyCrumbs, tooLarge
    // Malformed (RFC 9113 §8.2).
    case fieldName, upperCaseName, fieldValue, connectionSpecificField, te
    // Malformed (RFC 9113 §8.3).
    case latePseudoField, repeatedPseudoField, unknownPseudoField, missingPseudoField
    case method, scheme, authority, path, status, hostMismatch

    /// Whether the section is well formed as far as it was read, and too large: a request may be answered 431.
    package var isOverLimit: Bool {
        switch self {
        case .tooManyFields, .tooManyCrumbs, .tooLarge: true
        case .fieldName, .upperCaseName, .fieldValue, .connectionSpecificField, .te, .latePseudoField, .repeatedPseudoField,
            .unknownPseudoField, .missingPseudoField, .method, .scheme, .authority, .path, .status, .hostMismatch:
            false
        }
    }

    /// The fault of an HTTP/1.1 request that is closest.
    var reason: HTTPFault.Reason {
        switch self {
        case .tooManyFields, .tooManyCrumbs: .tooManyFields
        case .tooLarge: .headTooLarge
        case .fieldName, .upperCaseName: .fieldName
        case .fieldValue: .fieldValue
        case .connectionSpecificField, .te: .connection
        case .latePseudoField, .repeatedPseudoField, .unknownPseudoField, .missingPseudoField, .scheme: .requestLine
        case .method: .method
        case .authority: .invalidHost
        case .path: .target
        case .status: .statusLine
        case .hostMismatch: .hostMismatch
        }
    }

    /// Stable, snake_case, for logs and metrics.
    package var text: StaticString {
        switch self {
        case .tooManyFields: "too_many_fields"
        case .tooManyCrumbs: "too_many_crumbs"
        case .tooLarge: "too_large"
        case .fieldName: "field_name"
        case .upperCaseName: "upper_case_name"
        case .fieldValue: "field_value"
        case .connectionSpecificField: "connection_specific_field"
        case .te: "te"
        case .latePseudoField: "late_pseudo_field"
        case .repeatedPseudoField: "repeated_pseudo_field"
        case .unknownPseudoField: "unknown_pseudo_field"
        case .missingPseudoField: "missing_pseudo_field"
        case .method: "method"
        case .scheme: "scheme"
        case .authority: "authority"
        case .path: "path"
        case .status: "status"
        case .hostMismatch: "host_mismatch"
        }
    }
}

/// The message part that a field section is. `hasContent`: the HEADERS frame did not end the stream.
package enum FieldSectionKind: Sendable, Equatable {
    case request(hasContent: Bool)
    case response(hasContent: Bool)
    case trailers
}
