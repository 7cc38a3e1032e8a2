package import Wire

/// A nonce for proofs (RFC 9449 §8): 16 letters of base64url.
package struct ProofNonce: Hashable, Sendable {
    /// The letters.
    private let letters: UInt128

    /// nil for any text of another length.
    init?(_ text: RawSpan) {
        guard text.byteCount == 16 else { return nil }
        letters = text.load128(0)
    }

    package var text: String {
        var out = ByteBuffer()
        letters.append(to: &out)
        return out.readable.text
    }

    /// The nonce of a period of `ProofNonces`.
    fileprivate init(of period: Int64, _ key: KeyedDigest) {
        let digest = key.digest(Array(String(period).utf8))
        letters = Base64URL.encode(digest.rawBytes.extracting(0..<12)).withRawBytes { $0.load128(0) }
    }
}

/// The nonces that count, the same at all gateways that share a secret: one for each five minutes. One thread at a time.
package struct ProofNonces {
    /// How long each is given out; it counts for as long again.
    package static let periodSeconds: Int64 = 300

    private let key: KeyedDigest
    private var period = Int64.min
    private var counting: [ProofNonce] = []

    package init(secret: [UInt8]) { key = KeyedDigest(secret: secret, label: "tollgate device proof nonce") }

    /// The nonce to give out.
    package mutating func current(at now: WallTime) -> ProofNonce {
        turn(now)
        return counting[0]
    }

    /// Whether `nonce` counts: that of this period, of the one before, or of the next, which a gateway with a faster clock gave out.
    package mutating func accepts(_ nonce: ProofNonce?, at now: WallTime) -> Bool {
        turn(now)
        return nonce.map { counting.contains($0) } ?? false
    }

    private mutating func turn(_ now: WallTime) {
        let current = now.seconds / Self.periodSeconds
        guard current != period else { return }
        period = current
        counting = [0, -1, 1].map { ProofNonce(of: current + $0, key) }
    }
}
