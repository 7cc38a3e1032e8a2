import Wire

/// A token taken apart for a person to read. Nothing in it is verified: never a base for a decision.
package struct TokenInspection: Sendable {
    /// The JSON text of the header and of the payload; nil where it is no canonical base64url of JSON in UTF-8.
    package let header: String?
    package let payload: String?
    /// Bytes of the signature; nil where it is no canonical base64url.
    package let signatureBytes: Int?

    /// A fault if it has not three parts, or is too large to be looked at.
    package init(_ token: RawSpan) throws(TokenFault) {
        let parts = try TokenParts(token)
        header = Self.json(token[parts.header])
        payload = Self.json(token[parts.payload])
        signatureBytes = Base64URL.decode(token[parts.signature])?.count
    }

    private static func json(_ letters: RawSpan) -> String? {
        guard let bytes = Base64URL.decode(letters) else { return nil }
        var reader = JSONReader(bytes.rawBytes)
        do throws(JSONFault) {
            while try reader.next() != .end {}
        } catch {
            return nil
        }
        return bytes.rawBytes.text
    }
}
