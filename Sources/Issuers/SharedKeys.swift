internal import Accounts
package import Credentials
internal import Glibc
package import Storage
internal import System
internal import Threads
package import Wire

/// The signing keys and the refresh secret that several gateways share in PostgreSQL, sealed with `TOLLGATE_KEY_SECRET`. Gateways read
/// them at start and whenever they change.
///
/// The first gateway that shares uploads the keys of its data folder. Each gateway keeps a sealed copy in its data folder, for
/// a start while the database is down. Blocks; for the control plane.
package struct SharedKeys: Sendable {
    private static let label = "tollgate shared keys"
    private static let ringName = "signing keys"
    private static let refreshName = "refresh secret"
    /// Timeout of the database, in milliseconds.
    private static let patience: Int32 = 10_000
    /// The time between publishing a new key and signing with it, in µs: all gateways have read it by then.
    private static let publicationMicroseconds: UInt32 = 3_000_000
    /// The age from which all gateways have read a key, in seconds, also if their clocks differ.
    private static let publicationAge: Int64 = 60
    private static let missing = KeyStoreFault(description: "the database no longer has the signing keys")
    private static let maxCopy = 1 << 20

    private let location: StoreLocation
    private let box: SealedBox
    /// The data folder: keys from before sharing, and the sealed copies.
    private let files: KeyStore
    /// Called after a write that other gateways must read.
    private let onChange: ChangeNotice

    /// nil if the plan shares nothing: no `TOLLGATE_KEY_SECRET`, a SQLite database, or keys from `TOLLGATE_JWT_SECRET`.
    package init?(_ plan: IssuersPlan, onChange: @escaping ChangeNotice = { _ in }) {
        guard let sharing = plan.sharing else { return nil }
        location = sharing.location
        box = SealedBox(secret: sharing.secret, label: Self.label)
        files = KeyStore(dataDirectory: plan.dataDirectory)
        self.onChange = onChange
    }

    /// Whether the secret opens what gateways keep sealed under `name`, so that it is the one of those that sealed it.
    package static func opens(_ sealed: [UInt8], as name: String, secret: [UInt8]) -> Bool {
        SealedBox(secret: secret, label: label).open(sealed, as: name) != nil
    }

    // MARK: signing keys

    /// The signing keys. If there are none, uploads the data folder's, or generates some.
    func openRing(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        let opened = try kept(Self.ringName) { () throws(KeyStoreFault) in
            if let own = try files.load() { return try serialised(own) }
            return try serialised(try KeyStore.mappingFault { () throws(KeyFault) in try .generate(algorithm, now: now) })
        }
        return try ring(opened.secret)
    }

    /// The signing keys; nil if there are none.
    func peekRing() throws(KeyStoreFault) -> SigningKeyRing? {
        guard let found = try read(Self.ringName) else { return nil }
        return try ring(found.secret)
    }

    /// The signing keys, read by a running gateway from its open store; nil if there are none.
    package func ring(in store: SQLStore) async throws -> SigningKeyRing? {
        guard let found = try await store.secret(Self.ringName) else { return nil }
        keepCopy(found.sealed, Self.ringName)
        return try ring(try opened(found.sealed, Self.ringName))
    }

    /// Rotates the keys on all gateways. A next key that they may not have read, because there was none for `algorithm` or it is younger
    /// than a minute, signs after 3 s: running gateways have read it by then.
    package func rotate(
        to algorithm: SigningAlgorithm, clockSkewSeconds: Int64, now: WallTime
    ) throws(KeyStoreFault) -> SigningKeyRing {
        let lifetime = KeyStore.maxTokenSeconds + clockSkewSeconds
        _ = try openRing(algorithm, now: now)
        // The next key that was waited for.
        var published: String?
        while true {
            guard let found = try read(Self.ringName) else { throw Self.missing }
            let before = try ring(found.secret)
            if let next = before.next(of: algorithm), next.key.kid == published || next.createdAt < now.seconds - Self.publicationAge {
                let after = try KeyStore.mappingFault { () throws(KeyFault) in
                    var ring = before
                    try ring.rotate(to: algorithm, lifetimeSeconds: lifetime, now: now)
                    return ring
                }
                // If another gateway rotated at the same time, its next key is new.
                if try keep(try serialised(after), Self.ringName, after: found.version) { return after }
            } else {
                // Nothing changes if there is one.
                let after = try replace { ring throws(KeyFault) in try ring.publishNext(of: algorithm, now: now) }
                published = after.next(of: algorithm)?.key.kid
                // Only the thread that rotates waits.
                usleep(Self.publicationMicroseconds)
            }
        }
    }

    /// Changes the keys by optimistic locking: retries if another gateway has changed them in between.
    private func replace(_ change: (inout SigningKeyRing) throws(KeyFault) -> Void) throws(KeyStoreFault) -> SigningKeyRing {
        while true {
            guard let found = try read(Self.ringName) else { throw Self.missing }
            let before = try ring(found.secret)
            let after = try KeyStore.mappingFault { () throws(KeyFault) in
                var ring = before
                try change(&ring)
                return ring
            }
            if try keep(try serialised(after), Self.ringName, after: found.version) { return after }
        }
    }

    private func ring(_ bytes: [UInt8]) throws(KeyStoreFault) -> SigningKeyRing {
        do {
            return try SigningKeyRing(parsing: bytes.rawBytes)
        } catch {
            throw KeyStoreFault(description: "the signing keys in the database cannot be read: \(error.message)")
        }
    }

    private func serialised(_ ring: SigningKeyRing) throws(KeyStoreFault) -> [UInt8] {
        do {
            return try ring.serialised()
        } catch {
            throw KeyStoreFault(description: "the signing keys cannot be serialised: \(error.message)")
        }
    }

    // MARK: the refresh secret

    /// The secret of refresh tokens, codes and reset tokens.
    func refreshSecret() throws(KeyStoreFault) -> [UInt8] {
        let found = try kept(Self.refreshName) { () throws(KeyStoreFault) in try RefreshSecret.read(files) }
        return found.secret
    }

    // MARK: the database

    private struct Kept: Sendable {
        let version: Int64
        let secret: [UInt8]
    }

    /// The value that all gateways agree on. If there is none, proposes `candidate`; if the database is down, uses the copy.
    private func kept(_ name: String, candidate: () throws(KeyStoreFault) -> [UInt8]) throws(KeyStoreFault) -> Kept {
        let found: SealedSecret?
        do throws(StoreFault) {
            found = try query { store async throws(StoreFault) in try await store.secret(name) }
        } catch {
            guard case .unavailable = error, let copy = copy(name) else { throw fault(error) }
            return Kept(version: 0, secret: try opened(copy, name))
        }
        if let found {
            keepCopy(found.sealed, name)
            return Kept(version: found.version, secret: try opened(found.sealed, name))
        }
        _ = try keep(try candidate(), name, after: 0)
        guard let found = try read(name) else { throw KeyStoreFault(description: "the database does not keep the \(name)") }
        return found
    }

    private func read(_ name: String) throws(KeyStoreFault) -> Kept? {
        let found: SealedSecret?
        do throws(StoreFault) {
            found = try query { store async throws(StoreFault) in try await store.secret(name) }
        } catch {
            throw fault(error)
        }
        guard let found else { return nil }
        keepCopy(found.sealed, name)
        return Kept(version: found.version, secret: try opened(found.sealed, name))
    }

    private func keep(_ secret: [UInt8], _ name: String, after version: Int64) throws(KeyStoreFault) -> Bool {
        let sealed = box.seal(secret, as: name)
        do throws(StoreFault) {
            return try query { store async throws(StoreFault) in try await store.keep(sealed, as: name, after: version) }
        } catch {
            throw fault(error)
        }
    }

    private func opened(_ sealed: [UInt8], _ name: String) throws(KeyStoreFault) -> [UInt8] {
        if let secret = box.open(sealed, as: name) { return secret }
        throw KeyStoreFault(
            description:
                "the \(name) in the database cannot be opened, sealed with another TOLLGATE_KEY_SECRET: set the one of the other gateways")
    }

    private func fault(_ fault: StoreFault) -> KeyStoreFault {
        KeyStoreFault(description: "the signing keys cannot be read from the database: \(fault.reason)")
    }

    /// Runs `question` on a connection of its own.
    private func query<Value: Sendable>(
        _ question: @escaping @Sendable (SQLStore) async throws(StoreFault) -> Value
    ) throws(StoreFault) -> Value {
        guard let store = location.open(connections: 1, start: WorkerThread.start, onChange: onChange) else {
            throw .unavailable("threads cannot be started")
        }
        let answer: Result<Value, StoreFault>?
        do throws(SystemFault) {
            answer = try blocking(atMost: Self.patience) { () async -> Result<Value, StoreFault> in
                let result: Result<Value, StoreFault>
                do throws(StoreFault) { result = .success(try await question(store)) } catch { result = .failure(error) }
                await store.close()
                return result
            }
        } catch {
            throw .unavailable(error.description)
        }
        guard let answer else { throw .unavailable("it does not answer in time") }
        return try answer.get()
    }

    // MARK: the copy

    private func copyPath(_ name: String) -> String { "\(files.folder)/shared-\(name.replacing(" ", with: "-")).sealed" }

    private func copy(_ name: String) -> [UInt8]? {
        do throws(SystemFault) {
            return try FileBytes.read(copyPath(name), limit: Self.maxCopy)
        } catch {
            return nil
        }
    }

    private func keepCopy(_ sealed: [UInt8], _ name: String) {
        guard copy(name) != sealed else { return }
        do throws(SystemFault) {
            try FileBytes.makeDirectory(files.folder, mode: 0o700)
            try FileBytes.write(sealed, to: copyPath(name), mode: 0o600)
        } catch {
            // The copy only serves a start without the database, so a failure to write it is not fatal.
        }
    }
}
