internal import Credentials
internal import Glibc
package import Transport
internal import Wire

/// The bearer token of the admin API: the setting's, else one that is made at the first start and kept in the data folder.
/// Blocking; for the control plane.
package struct AdminToken: Sendable {
    package let bytes: [UInt8]
    /// Whether it was made just now: nobody has seen it yet.
    package let isNew: Bool

    /// Made tokens are this many random bytes, in base64url.
    private static let randomBytes = 32

    package static func open(configured: [UInt8]?, dataDirectory: String) throws(SystemFault) -> AdminToken {
        if let token = configured { return AdminToken(bytes: token, isNew: false) }
        let path = dataDirectory + "/keys/admin-token"
        do throws(SystemFault) {
            let kept = try FileBytes.read(path, limit: 1_024)
            if !kept.isEmpty { return AdminToken(bytes: kept, isNew: false) }
        } catch {
            guard error.errno == ENOENT else { throw error }
        }
        let made = Array(Base64URL.encode(SecureRandom.bytes(randomBytes).rawBytes).utf8)
        try FileBytes.makeDirectory(dataDirectory + "/keys", mode: 0o700)
        try FileBytes.write(made, to: path, mode: 0o600)
        return AdminToken(bytes: made, isNew: true)
    }

    package func matches(_ presented: some StringProtocol) -> Bool {
        Digest.constantTimeEquals(bytes.rawBytes, Array(presented.utf8).rawBytes)
    }
}
