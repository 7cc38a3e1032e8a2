package import Wire

/// The gateway's signing keys: the active key signs, the next one is published ahead of time, retired ones verify until their
/// last token has expired.
package struct SigningKeyRing: Sendable {
    package enum State: Equatable, Sendable {
        case active
        /// Published but not signing yet, so that verifiers have it in their caches when it does.
        case next
        /// Verifies until this time, in seconds since 1970.
        case retired(until: Int64)
    }

    package struct Entry: Sendable {
        package let key: SigningKey
        package fileprivate(set) var state: State
        /// Seconds since 1970.
        package let createdAt: Int64

        fileprivate func isLive(at seconds: Int64) -> Bool {
            switch state {
            case .active, .next: true
            case .retired(let until): until > seconds
            }
        }
    }

    /// The active key, then the next key if there is one, then the retired keys, newest first.
    package private(set) var entries: [Entry]

    /// Generates a ring with an active and a next key.
    package static func generate(_ algorithm: SigningAlgorithm, now: WallTime) throws(KeyFault) -> Self {
        try Self([
            Entry(key: .generate(algorithm), state: .active, createdAt: now.seconds),
            Entry(key: .generate(algorithm), state: .next, createdAt: now.seconds),
        ])
    }

    /// A ring with a single key, such as a configured secret.
    package init(only key: SigningKey, now: WallTime) {
        entries = [Entry(key: key, state: .active, createdAt: now.seconds)]
    }

    /// Orders the entries; exactly one must be active, and at most one next.
    init(_ entries: [Entry]) throws(KeyFault) {
        let active = entries.filter { $0.state == .active }
        let next = entries.filter { $0.state == .next }
        guard active.count == 1 else { throw KeyFault("the key ring has \(active.count) active keys in place of one") }
        guard next.count <= 1 else { throw KeyFault("the key ring has \(next.count) next keys in place of one") }
        self.entries = active + next + entries.filter { $0.state != .active && $0.state != .next }
    }

    /// The key that signs.
    package var active: SigningKey { entries[0].key }

    /// Rotates the keys: the next key becomes active (or a new key, if there is none for `algorithm`), a new next key is
    /// generated, and the old active key verifies for another `lifetimeSeconds`, the longest lifetime of a token. Retired keys
    /// past their time are removed.
    package mutating func rotate(
        to algorithm: SigningAlgorithm, lifetimeSeconds: Int64, now: WallTime
    ) throws(KeyFault) {
        let seconds = now.seconds
        var kept = entries.filter { $0.isLive(at: seconds) }
        var active: Entry
        if let index = kept.firstIndex(where: { $0.state == .next && $0.key.algorithm == algorithm }) {
            active = kept.remove(at: index)
            active.state = .active
        } else {
            active = Entry(key: try .generate(algorithm), state: .active, createdAt: seconds)
        }
        for index in kept.indices where kept[index].state == .active {
            kept[index].state = .retired(until: seconds + max(0, lifetimeSeconds))
        }
        kept.removeAll { $0.state == .next }
        let next = Entry(key: try .generate(algorithm), state: .next, createdAt: seconds)
        self = try Self([active, next] + kept)
    }

    /// The next key for `algorithm`; nil if there is none.
    package func next(of algorithm: SigningAlgorithm) -> Entry? {
        entries.first { $0.state == .next && $0.key.algorithm == algorithm }
    }

    /// Generates a next key for `algorithm` unless there is one; replaces a next key for another algorithm.
    package mutating func publishNext(of algorithm: SigningAlgorithm, now: WallTime) throws(KeyFault) {
        guard next(of: algorithm) == nil else { return }
        let next = Entry(key: try .generate(algorithm), state: .next, createdAt: now.seconds)
        self = try Self(entries.filter { $0.state != .next } + [next])
    }

    /// The keys that verify at `now`.
    package func keySet(now: WallTime) -> KeySet {
        KeySet(entries.filter { $0.isLive(at: now.seconds) }.map(\.key.verificationKey))
    }

    /// The public halves of the keys that verify at `now`, as a JWK Set (RFC 7517 §5); secrets are left out.
    package func jwks(now: WallTime) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.key("keys" as StaticString)
        json.beginArray()
        for entry in entries where entry.isLive(at: now.seconds) { _ = entry.key.writePublicJWK(to: &json) }
        json.endArray()
        json.endObject()
        return json.finish().readable.array
    }
}
