internal import Accounts
internal import Credentials
internal import Gate
internal import Proxy
internal import Synchronization
internal import Wire

/// Purges of kept responses at all gateways of a store. Each is a live switch, which every gateway carries out once and which ends by itself.
final class CachePurges: Sendable {
    static let kind = "cache-purge"
    /// For so long a gateway that has not read the change log still finds it; after a longer pause it drops all that it keeps.
    static let keptSeconds: Int64 = 900

    private let workers: WorkerBroadcast
    private let done = Mutex<Set<String>>([])

    init(_ workers: WorkerBroadcast) { self.workers = workers }

    static func newName() -> String {
        SwitchBoard.name(kind, of: SecureRandom.bytes(8).map { String($0, radix: 16) }.joined(separator: "."))
    }

    /// The purges that have not ended. `isAnew`: some may have been missed.
    func follow(_ purges: [LiveSwitch], isAnew: Bool) {
        let new = done.withLock { done in
            defer { done = Set(purges.map(\.name)) }
            return purges.filter { !done.contains($0.name) }
        }
        if isAnew { return post(CacheSelector()) }
        // One that a later release has written says more than this one can read.
        for purge in new { post((try? CacheSelector(purging: Array(purge.value.utf8))) ?? CacheSelector()) }
    }

    private func post(_ selector: CacheSelector) {
        workers.post(.cache(.select(selector, removes: true) { _ in }))
    }
}
