internal import Glibc
package import Credentials
internal import Transport
package import Wire

/// Why the gateway's own keys cannot be had, as a sentence for the operator.
package struct KeyStoreFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
}

/// The gateway's own signing keys in the data folder: `keys/ring.pem`, mode 0600, in a folder of mode 0700.
///
/// The file is replaced in one step, and whoever may replace it holds the lock of `keys/lock` from reading to writing, so
/// that processes that start or rotate at once end up with the same keys. Blocking; for the control plane.
package struct KeyStore: Sendable {
    /// How long the longest own access token may live: a retired key verifies that long, and the leeway more.
    package static let longestTokenSeconds: Int64 = 7 * 86_400
    /// No ring is larger.
    private static let largestFile = 1 << 20

    package let folder: String
    package var path: String { folder + "/ring.pem" }

    package init(dataDirectory: String) { folder = dataDirectory + "/keys" }

    /// The keys that `plan` asks for: its secret, those that gateways share, or the folder's; generated when there
    /// are none yet.
    package static func open(_ plan: IssuersPlan, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        if let secret = plan.ownSecret { return try ring(of: secret, now: now) }
        if let shared = SharedKeys(plan) { return try shared.openRing(plan.algorithm, now: now) }
        let store = KeyStore(dataDirectory: plan.dataDirectory)
        return try store.loadOrGenerate(plan.algorithm, now: now)
    }

    /// The same without generating any: nil when there are none yet.
    package static func peek(_ plan: IssuersPlan, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing? {
        if let secret = plan.ownSecret { return try ring(of: secret, now: now) }
        if let shared = SharedKeys(plan) { return try shared.peekRing() }
        return try KeyStore(dataDirectory: plan.dataDirectory).load()
    }

    private static func ring(of secret: [UInt8], now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        do {
            return SigningKeyRing(only: try SigningKey(secret: secret.rawBytes), now: now)
        } catch {
            throw KeyStoreFault(description: "the secret of TOLLGATE_JWT_SECRET cannot sign: \(error.message)")
        }
    }

    /// The folder's keys; nil when there are none yet.
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
            throw KeyStoreFault(description: "the signing keys in \(path) cannot be read: \(error.message); restore the file, or move it away to start with new keys (tokens of the old ones then count no longer)")
        }
    }

    package func loadOrGenerate(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        if let ring = try load() { return ring }
        return try locked { () throws(KeyStoreFault) in
            if let ring = try load() { return ring }
            let ring = try Self.made { () throws(KeyFault) in try SigningKeyRing.generate(algorithm, now: now) }
            try save(ring)
            return ring
        }
    }

    /// Makes the next key sign. The old one verifies until the last token it can have signed is over.
    package func rotate(
        to algorithm: SigningAlgorithm, clockSkewSeconds: Int64, now: WallTime
    ) throws(KeyStoreFault) -> SigningKeyRing {
        try locked { () throws(KeyStoreFault) in
            guard var ring = try load() else {
                let ring = try Self.made { () throws(KeyFault) in try SigningKeyRing.generate(algorithm, now: now) }
                try save(ring)
                return ring
            }
            let lifetime = Self.longestTokenSeconds + clockSkewSeconds
            ring = try Self.made { () throws(KeyFault) in
                var next = ring
                try next.rotate(to: algorithm, lifetimeSeconds: lifetime, now: now)
                return next
            }
            try save(ring)
            return ring
        }
    }

    static func made(_ body: () throws(KeyFault) -> SigningKeyRing) throws(KeyStoreFault) -> SigningKeyRing {
        do {
            return try body()
        } catch {
            throw KeyStoreFault(description: "no signing key can be made: \(error.message)")
        }
    }

    private func save(_ ring: SigningKeyRing) throws(KeyStoreFault) {
        let bytes: [UInt8]
        do {
            bytes = try ring.serialised()
        } catch {
            throw KeyStoreFault(description: "the signing keys cannot be written out: \(error.message)")
        }
        do {
            try FileBytes.write(bytes, to: path, mode: 0o600)
        } catch {
            throw KeyStoreFault(description: error.description)
        }
    }

    /// Runs `body` while no other process or thread does.
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
