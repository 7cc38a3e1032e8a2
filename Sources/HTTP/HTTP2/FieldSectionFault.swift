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
    var reason: HTTPFault.Reason { row.reason }

    /// Stable, snake_case, for logs and metrics.
    package var text: StaticString { row.text }

    private var row: (reason: HTTPFault.Reason, text: StaticString) {
        switch self {
        case .tooManyFields: (.tooManyFields, "too_many_fields")
        case .tooManyCrumbs: (.tooManyFields, "too_many_crumbs")
        case .tooLarge: (.headTooLarge, "too_large")
        case .fieldName: (.fieldName, "field_name")
        case .upperCaseName: (.fieldName, "upper_case_name")
        case .fieldValue: (.fieldValue, "field_value")
        case .connectionSpecificField: (.connection, "connection_specific_field")
        case .te: (.connection, "te")
        case .latePseudoField: (.requestLine, "late_pseudo_field")
        case .repeatedPseudoField: (.requestLine, "repeated_pseudo_field")
        case .unknownPseudoField: (.requestLine, "unknown_pseudo_field")
        case .missingPseudoField: (.requestLine, "missing_pseudo_field")
        case .scheme: (.requestLine, "scheme")
        case .method: (.method, "method")
        case .authority: (.invalidHost, "authority")
        case .path: (.target, "path")
        case .status: (.statusLine, "status")
        case .hostMismatch: (.hostMismatch, "host_mismatch")
        }
    }
}

/// The message part that a field section is. `hasContent`: the HEADERS frame did not end the stream.
package enum FieldSectionKind: Sendable, Equatable {
    case request(hasContent: Bool)
    case response(hasContent: Bool)
    case trailers
}
