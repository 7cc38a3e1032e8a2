internal import Credentials
internal import Threads
package import Wire

/// The loader of all keys for a command. It generates no own keys, and fetches key sets of which there is no copy.
package enum CurrentKeys {
    /// The maximum time for fetches, in milliseconds.
    private static let patience: UInt64 = 12_000

    /// All keys now. Blocks; fetches take at most 12 s, and key sets that cannot be fetched are missing.
    package static func gather(_ plan: IssuersPlan, at moment: Moment) throws(KeyStoreFault) -> IssuerKeys {
        let own = try KeyStore.peek(plan, now: moment.wall)
        var sources = KeySources(plan, own: own, earlier: nil, at: moment)
        fetchMissing(&sources, at: moment)
        return sources.snapshot(generation: 0)
    }

    private static func fetchMissing(_ sources: inout KeySources, at moment: Moment) {
        let missing = sources.sources.indices.filter { sources.url($0) != nil && sources.sources[$0].keys == nil }
        guard !missing.isEmpty, let fetcher = JWKSFetcher() else { return }
        var waiting: Set<Int> = []
        for index in missing {
            guard let url = sources.url(index), fetcher.start(index, url: url) == nil else { continue }
            waiting.insert(index)
        }
        let deadline = moment.monotonic.advanced(milliseconds: patience)
        while !waiting.isEmpty, SystemClock.now().monotonic < deadline {
            for outcome in fetcher.wait(milliseconds: 1000) {
                waiting.remove(outcome.id)
                guard case .success(let document) = outcome.result else { continue }
                _ = sources.fetched(outcome.id, document, at: SystemClock.now(), jitter: 0)
            }
        }
    }
}
