internal import Credentials
internal import Issuers
internal import Settings
internal import Storage
internal import Synchronization
internal import System
internal import Threads
internal import Transport
internal import Wire

/// Rotates the signing keys of a running gateway, as `tollgate keys rotate` does, one rotation at a time.
final class KeyRotation: Sendable {
    private let active: ActiveConfiguration
    private let keySets: KeySetRefresher
    /// Called after each write that other gateways must read.
    private let onChange: ChangeNotice
    private let isUnderWay = Mutex(false)

    init(active: ActiveConfiguration, keySets: KeySetRefresher, onChange: @escaping ChangeNotice) {
        self.active = active
        self.keySets = keySets
        self.onChange = onChange
    }

    /// How long a rotation waits until its key signs, in milliseconds. Another gateway may rotate at the same time, and its key then does.
    private static let patience: UInt64 = 5_000

    /// The keys after the rotation, which this gateway signs with from then on.
    func rotate() async throws(RotationRefusal) -> SigningKeyRing {
        let configuration = active.configuration
        guard configuration.settings.jwtSecret == nil else { throw .secret }
        let isFirst = isUnderWay.withLock { isUnderWay in
            defer { isUnderWay = true }
            return !isUnderWay
        }
        guard isFirst else { throw .underWay }
        defer { isUnderWay.withLock { $0 = false } }
        let begin = EventLoop.now().monotonic
        let ring = try await rotated(configuration).get()
        keySets.adopt(ring, asOf: begin)
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: Self.patience)
        while active.signingKey.kid != ring.active.kid, EventLoop.now().monotonic < deadline { await pause(milliseconds: 5) }
        return ring
    }

    /// On a thread of its own: it reads files or the database, and may wait for 3 s.
    private func rotated(_ configuration: GatewayConfiguration) async -> Result<SigningKeyRing, RotationRefusal> {
        let onChange = onChange
        let rotate: @Sendable () -> Result<SigningKeyRing, KeyStoreFault> = {
            Result { () throws(KeyStoreFault) in
                try KeyStore.rotate(
                    IssuersPlan(configuration), clockSkewSeconds: configuration.settings.clockSkewSeconds, now: EventLoop.now().wall,
                    onChange: onChange)
            }
        }
        do throws(SystemFault) {
            return try await WorkerThread.run("key rotation", rotate).mapError { .failed($0.description) }
        } catch {
            return .failure(.failed("the system gives no thread"))
        }
    }
}
