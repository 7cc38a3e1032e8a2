import COpenSSL
import Wire

extension Digest {
    /// The SHA-1 digest, 20 bytes (FIPS 180-4). Not for security: WebSocket handshakes ask for it (RFC 6455 §4.2.2).
    package static func sha1(_ bytes: RawSpan) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: 20)
        let made = unsafe bytes.withUnsafeBytes { unsafe EVP_Digest($0.baseAddress, $0.count, &digest, nil, EVP_sha1(), nil) }
        precondition(made == 1, "OpenSSL could not hash")
        return digest
    }
}
