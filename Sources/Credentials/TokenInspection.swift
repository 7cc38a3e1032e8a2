import Wire

/// A token taken apart for a person to read. Nothing in it is verified: never a base for a decision.
package struct TokenInspection: Sendable {
    /// The JSON text of the header and of the payload; nil where it is no canonical base64url of JSON.
    package let header: [UInt8]?
    package let payload: [UInt8]?
    /// Bytes of the signature; nil where it is no canonical base64url.
    package let signatureBytes: Int?

    package init(_ token: RawSpan) {
        header = nil
        payload = nil
        signatureBytes = nil
    }
}
