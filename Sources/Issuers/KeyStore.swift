package import Credentials
internal import Glibc
internal import System
package import Wire

/// An error of the gateway's key storage, as a sentence for the operator.
package struct KeyStoreFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
}

/// The gateway's signing keys in the data folder: `keys/ring.pem`, mode 0600, in a folder of mode 0700.
///
/// The file is replaced atomically. A writer holds a lock on `keys/lock` from reading to writing, so that processes that start or
/// rotate at the same time end up with the same keys. Blocks; for the control plane.
package struct KeyStore: Sendable {
    /// The maximum lifetime of an own access token, in seconds. A retired key verifies that long plus the leeway.
    package static let maxTokenSeconds: Int64 = 7 * 86_400
    /// The maximum size of the file in bytes.
    private static let largestFile = 1 << 20

    package let folder: String
    package var path: String { folder + "/ring.pem" }

    package init(dataDirectory: String) { folder = dataDirectory + "/keys" }

    /// The plan's signing keys: its secret, the keys that gateways share, or the folder's. Generates them if there are none.
    package static func open(_ plan: IssuersPlan, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        if let secret = plan.ownSecret { return try ring(of: secret, now: now) }
        if let shared = SharedKeys(plan) { return try shared.openRing(plan.algorithm, now: now) }
        let store = KeyStore(dataDirectory: plan.dataDirectory)
        return try store.loadOrGenerate(plan.algorithm, now: now)
    }

    /// The same without generating any; nil if there are none.
    package static func peek(_ plan: IssuersPlan, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing? {
        if let secret = plan.ownSecret { return try ring(of: secret, now: now) }
        if let shared = SharedKeys(plan) { return try shared.peekRing() }
        return try KeyStore(dataDirectory: plan.dataDirectory).load()
    }

    private static func ring(of secret: [UInt8], now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        do {
            return SigningKeyRing(only: try SigningKey(secret: secret.rawBytes), now: now)
        } catch {
            throw KeyStoreFault(description: "TOLLGATE_JWT_SECRET cannot sign: \(error.message)")
        }
    }

    /// The folder's keys; nil if there are none.
    package func load() throws(KeyStoreFault) -> SigningKeyRing? {
        let bytes: [UInt8]
        do throws(SystemFault) {
            bytes = try FileBytes.read(path, limit: Self.largestFile)
        } catch {
            if error.errno == ENOENT || error.errno == ENOTDIR { return nil }
            throw KeyStoreFault(description: error.description)
        }
        do {
            return try SigningKeyRing(parsing: bytes.rawBytes)
        } catch {
            throw KeyStoreFault(
                description:
                    "the signing keys in \(path) cannot be read: \(error.message); restore the file, or move it away to start with new keys (tokens signed with the old ones are then refused)"
            )
        }
    }

    /// The folder's keys, generated if there are none.
    package func loadOrGenerate(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        if let ring = try load() { return ring }
        return try locked { () throws(KeyStoreFault) in
            if let ring = try load() { return ring }
            let ring = try Self.mappingFault { () throws(KeyFault) in try SigningKeyRing.generate(algorithm, now: now) }
            try save(ring)
            return ring
        }
    }

    /// Rotates the keys: the next key signs; the old one verifies until the last token that it can have signed has expired.
    package func rotate(
        to algorithm: SigningAlgorithm, clockSkewSeconds: Int64, now: WallTime
    ) throws(KeyStoreFault) -> SigningKeyRing {
        try locked { () throws(KeyStoreFault) in
            guard var ring = try load() else {
                let ring = try Self.mappingFault { () throws(KeyFault) in try SigningKeyRing.generate(algorithm, now: now) }
                try save(ring)
                return ring
            }
            let lifetime = Self.maxTokenSeconds + clockSkewSeconds
            ring = try Self.mappingFault { () throws(KeyFault) in
                var next = ring
                try next.rotate(to: algorithm, lifetimeSeconds: lifetime, now: now)
                return next
            }
            try save(ring)
            return ring
        }
    }

    static func mappingFault(_ body: () throws(KeyFault) -> SigningKeyRing) throws(KeyStoreFault) -> SigningKeyRing {
        do {
            return try body()
        } catch {
            throw KeyStoreFault(description: "a signing key cannot be generated: \(error.message)")
        }
    }

    private func save(_ ring: SigningKeyRing) throws(KeyStoreFault) {
        let bytes: [UInt8]
        do {
            bytes = try ring.serialised()
        } catch {
            throw KeyStoreFault(description: "the signing keys cannot be serialised: \(error.message)")
        }
        do {
            try FileBytes.write(bytes, to: path, mode: 0o600)
        } catch {
            throw KeyStoreFault(description: error.description)
        }
    }

    /// Runs `body` under an exclusive lock across processes and threads.
    func locked<Value>(_ body: () throws(KeyStoreFault) -> Value) throws(KeyStoreFault) -> Value {
        do {
            try FileBytes.makeDirectory(folder, mode: 0o700)
        } catch {
            throw KeyStoreFault(description: "\(error.description); set TOLLGATE_DATA_DIR to a folder that can be written")
        }
        let lock = unsafe Glibc.open(folder + "/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard lock >= 0 else { throw KeyStoreFault(description: SystemFault("open \(folder)/lock").description) }
        defer { close(lock) }
        while flock(lock, LOCK_EX) != 0 {
            guard errno == EINTR else { throw KeyStoreFault(description: SystemFault("lock \(folder)/lock").description) }
        }
        return try body()
    }
}
