internal import Credentials
internal import Glibc
internal import System
internal import Wire

/// The secret of refresh tokens, codes and reset tokens: `keys/refresh.key` in the data folder, 32 bytes, mode 0600.
///
/// It is generated once and never rotated, since every session depends on it. Gateways that share their signing keys share it,
/// too. Blocks; for the control plane.
package enum RefreshSecret {
    static let bytes = 32

    /// The plan's refresh secret, generated if there is none. With `TOLLGATE_JWT_SECRET` it is derived from it, so that gateways
    /// with the same secret agree.
    package static func open(_ plan: IssuersPlan) throws(KeyStoreFault) -> [UInt8] {
        if let secret = plan.ownSecret {
            let label: StaticString = "tollgate refresh secret"
            return Digest.hmacSHA256(label.rawBytes, key: secret.rawBytes)
        }
        if let shared = SharedKeys(plan) { return try shared.refreshSecret() }
        return try read(KeyStore(dataDirectory: plan.dataDirectory))
    }

    /// The folder's secret, generated if there is none.
    static func read(_ store: KeyStore) throws(KeyStoreFault) -> [UInt8] {
        try store.locked { () throws(KeyStoreFault) in
            do throws(SystemFault) {
                return try read(store.folder + "/refresh.key")
            } catch {
                throw KeyStoreFault(description: error.description)
            }
        }
    }

    private static func read(_ path: String) throws(SystemFault) -> [UInt8] {
        do throws(SystemFault) {
            let secret = try FileBytes.read(path, limit: bytes)
            if secret.count == bytes { return secret }
            throw SystemFault("\(path) does not have \(bytes) bytes, restore it, or remove it, which ends every session", errno: EINVAL)
        } catch {
            guard error.errno == ENOENT else { throw error }
        }
        let secret = SecureRandom.bytes(bytes)
        try FileBytes.write(secret, to: path, mode: 0o600)
        return secret
    }
}
