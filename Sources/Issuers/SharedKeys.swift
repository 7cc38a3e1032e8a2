internal import Accounts
package import Credentials
internal import Glibc
package import Storage
internal import Transport
package import Wire

/// The signing keys and the secret under refresh tokens where several gateways share a PostgreSQL database: they lie in it,
/// sealed with `TOLLGATE_KEY_SECRET`. Every gateway reads them when it starts and when one is replaced.
///
/// A gateway that shares for the first time brings along what it has in its data folder, if nobody was there before. Each
/// keeps a sealed copy there, for a start while the database is away. Blocking; for the control plane.
package struct SharedKeys: Sendable {
    private static let ringName = "signing keys"
    private static let refreshName = "refresh secret"
    /// How long the database is waited for, in milliseconds.
    private static let patience: Int32 = 10_000
    /// Gateways have heard of a new key after so long, and only then it signs.
    private static let publicationMicroseconds: UInt32 = 3_000_000
    private static let longestCopy = 1 << 20

    private let location: StoreLocation
    private let box: SealedBox
    /// What there was before anything was shared.
    private let files: KeyStore
    /// Whether a change was made that other gateways should hear of.
    private let onChange: ChangeNotice

    /// nil where nothing is shared: without the secret, in a database that is a file, or with keys from a setting.
    package init?(_ plan: IssuersPlan, onChange: @escaping ChangeNotice = { _ in }) {
        guard let sharing = plan.sharing else { return nil }
        location = sharing.location
        box = SealedBox(secret: sharing.secret, label: "tollgate shared keys")
        files = KeyStore(dataDirectory: plan.dataDirectory)
        self.onChange = onChange
    }

    // MARK: signing keys

    /// The keys; made, or brought along, if there are none yet.
    func openRing(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        let opened = try kept(Self.ringName) { () throws(KeyStoreFault) in
            if let own = try files.load() { return try serialised(own) }
            return try serialised(try KeyStore.made { () throws(KeyFault) in try .generate(algorithm, now: now) })
        }
        return try ring(opened.secret)
    }

    /// nil when there are none yet.
    func peekRing() throws(KeyStoreFault) -> SigningKeyRing? {
        guard let found = try read(Self.ringName) else { return nil }
        return try ring(found.secret)
    }

    /// The keys as a gateway that runs reads them again, from its own store.
    package func ring(in store: SQLStore) async throws -> SigningKeyRing? {
        guard let found = try await store.secret(Self.ringName) else { return nil }
        keepCopy(found.sealed, Self.ringName)
        return try ring(try opened(found.sealed, Self.ringName))
    }

    /// Makes the next key sign, on all gateways. A next key of another algorithm is made known to them first.
    package func rotate(
        to algorithm: SigningAlgorithm, clockSkewSeconds: Int64, now: WallTime
    ) throws(KeyStoreFault) -> SigningKeyRing {
        let lifetime = KeyStore.longestTokenSeconds + clockSkewSeconds
        var current = try openRing(algorithm, now: now)
        if !current.hasNext(of: algorithm) {
            _ = try replace { ring throws(KeyFault) in try ring.publishNext(of: algorithm, now: now) }
            // Gateways that run read the new key before a token is signed with it; only the command that rotates waits.
            usleep(Self.publicationMicroseconds)
        }
        current = try replace { ring throws(KeyFault) in
            try ring.rotate(to: algorithm, lifetimeSeconds: lifetime, now: now)
        }
        return current
    }

    /// Changes the keys; again, if another gateway was faster.
    private func replace(_ change: (inout SigningKeyRing) throws(KeyFault) -> Void) throws(KeyStoreFault) -> SigningKeyRing {
        while true {
            guard let found = try read(Self.ringName) else { throw KeyStoreFault(description: "the signing keys have gone from the database") }
            let before = try ring(found.secret)
            let after = try KeyStore.made { () throws(KeyFault) in
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
            throw KeyStoreFault(description: "the signing keys cannot be written out: \(error.message)")
        }
    }

    // MARK: the refresh secret

    /// What every refresh token, code and reset token of these gateways depends on.
    func refreshSecret() throws(KeyStoreFault) -> [UInt8] {
        let found = try kept(Self.refreshName) { () throws(KeyStoreFault) in try RefreshSecret.read(files) }
        return found.secret
    }

    // MARK: the database

    private struct Kept: Sendable {
        let version: Int64
        let secret: [UInt8]
    }

    /// What all agree on, after `candidate` where there is nothing yet; the copy where the database is away.
    private func kept(_ name: String, candidate: () throws(KeyStoreFault) -> [UInt8]) throws(KeyStoreFault) -> Kept {
        let found: SealedSecret?
        do throws(StoreFault) {
            found = try ask { store async throws(StoreFault) in try await store.secret(name) }
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
            found = try ask { store async throws(StoreFault) in try await store.secret(name) }
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
            return try ask { store async throws(StoreFault) in try await store.keep(sealed, as: name, after: version) }
        } catch {
            throw fault(error)
        }
    }

    private func opened(_ sealed: [UInt8], _ name: String) throws(KeyStoreFault) -> [UInt8] {
        if let secret = box.open(sealed, as: name) { return secret }
        throw KeyStoreFault(
            description: "the \(name) in the database cannot be opened, sealed with another TOLLGATE_KEY_SECRET: set the one that the other gateways have")
    }

    private func fault(_ fault: StoreFault) -> KeyStoreFault {
        switch fault {
        case .unavailable(let reason), .failed(let reason):
            KeyStoreFault(description: "the signing keys cannot be had from the database: \(reason)")
        }
    }

    /// Asks the database over a connection of its own.
    private func ask<Value: Sendable>(
        _ question: @escaping @Sendable (SQLStore) async throws(StoreFault) -> Value
    ) throws(StoreFault) -> Value {
        guard let store = location.open(connections: 1, start: WorkerThread.start, onChange: onChange) else {
            throw .unavailable("the system gives no threads")
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
            return try FileBytes.read(copyPath(name), limit: Self.longestCopy)
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
            // A copy is for a start without the database alone; with it all is well.
        }
    }
}
