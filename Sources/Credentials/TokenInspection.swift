import Wire

/// A token decoded for display. Nothing in it is verified: never use it for a decision.
package struct TokenInspection: Sendable {
    /// The JSON text of header and payload; nil if it is not canonical base64url or not JSON.
    package let header: String?
    package let payload: String?
    /// The length of the signature in bytes; nil if it is not canonical base64url.
    package let signatureBytes: Int?

    /// Decodes a token; throws if it does not have three parts or is too large.
    package init(_ token: RawSpan) throws(TokenFault) {
        let parts = try TokenParts(token)
        header = Self.json(token[parts.header])
        payload = Self.json(token[parts.payload])
        signatureBytes = Base64URL.decode(token[parts.signature])?.count
    }

    private static func json(_ letters: RawSpan) -> String? {
        guard let bytes = Base64URL.decode(letters) else { return nil }
        var reader = JSONReader(bytes.rawBytes, takesHalves: true)
        do throws(JSONFault) {
            while try reader.next() != .end {}
        } catch {
            return nil
        }
        return bytes.rawBytes.text
    }
}
