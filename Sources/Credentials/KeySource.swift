/// The source of an issuer's keys.
package enum KeySource: Hashable, Sendable {
    /// URL of a JWK Set, fetched and refreshed in the background.
    case url(String)
    /// Path of a JWK Set or PEM file, read again when it changes.
    case file(String)
    /// A shared secret, read when the configuration was loaded.
    case secret([UInt8])
}
