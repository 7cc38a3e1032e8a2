internal import Credentials
internal import Glibc
internal import Settings
internal import Transport
internal import Wire

/// The bearer token of the admin API: the setting's, else one that is made at the first start and kept in the data folder.
/// Blocking; for the control plane.
struct AdminToken: Sendable {
    let bytes: [UInt8]
    /// Whether it was made just now: nobody has seen it yet.
    let isNew: Bool

    /// Made tokens are this many random bytes, in base64url.
    private static let randomBytes = 32

    static func open(_ configuration: GatewayConfiguration) throws(SystemFault) -> AdminToken {
        if let token = configuration.adminToken { return AdminToken(bytes: token, isNew: false) }
        let path = configuration.dataDirectory + "/keys/admin-token"
        do throws(SystemFault) {
            let kept = try FileBytes.read(path, limit: 1_024)
            if !kept.isEmpty { return AdminToken(bytes: kept, isNew: false) }
        } catch {
            guard error.errno == ENOENT else { throw error }
        }
        let made = Array(Base64URL.encode(SecureRandom.bytes(randomBytes).rawBytes).utf8)
        try FileBytes.makeDirectory(configuration.dataDirectory + "/keys", mode: 0o700)
        try FileBytes.write(made, to: path, mode: 0o600)
        return AdminToken(bytes: made, isNew: true)
    }

    func matches(_ presented: some StringProtocol) -> Bool {
        Digest.constantTimeEquals(bytes.rawBytes, Array(presented.utf8).rawBytes)
    }
}
