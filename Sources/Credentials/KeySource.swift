/// Where an issuer's keys come from.
package enum KeySource: Hashable, Sendable {
    /// A JWK Set behind a URL, fetched and refreshed in the background.
    case url(String)
    /// A JWK Set in a file, read again when it changes.
    case file(String)
    /// A shared secret, as it was in its file when the configuration was read.
    case secret([UInt8])
}
