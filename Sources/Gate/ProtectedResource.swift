/// A protected resource: routes below one path, for which outside issuers give out tokens of their own (RFC 9728).
package struct ProtectedResource: Hashable, Sendable {
    /// Its identifier, and the audience of its tokens.
    package let url: String
    /// The address of its metadata.
    package let metadataURL: String

    package init(url: String, metadataURL: String) {
        self.url = url
        self.metadataURL = metadataURL
    }
}
