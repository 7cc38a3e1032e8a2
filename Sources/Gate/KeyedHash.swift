import Credentials
import Wire

/// SipHash-1-3 (Aumasson and Bernstein): a keyed hash, so that clients who do not know the key cannot cause collisions.
package struct KeyedHash: Equatable, Sendable {
    private let first: UInt64
    private let second: UInt64

    /// `first` and `second` must be random where clients choose the input.
    package init(first: UInt64, second: UInt64) {
        self.first = first
        self.second = second
    }

    /// A random key.
    package static func random() -> KeyedHash {
        let key = SecureRandom.bytes(16)
        return KeyedHash(first: key.rawBytes.load64(0), second: key.rawBytes.load64(8))
    }

    /// A key derived from `secret`, the same on all gateways that share counts.
    package init(derivedFrom secret: RawSpan) {
        let key = Digest.hmacSHA256(("tollgate limit keys" as StaticString).rawBytes, key: secret)
        self.init(first: key.rawBytes.load64(0), second: key.rawBytes.load64(8))
    }

    package func hash64(_ bytes: RawSpan) -> UInt64 {
        var state = State(first, second)
        state.absorb(bytes)
        return state.finish()
    }

    /// 128 bits. `domain` separates kinds of input.
    package func hash128(_ bytes: RawSpan, domain: UInt64) -> LimitKey {
        var state = State(first, second)
        state.compress(domain)
        state.absorb(bytes)
        let low = state.finish()
        return LimitKey(high: state.finishAgain(), low: low)
    }

    /// 128 bits over two words.
    @inline(__always)
    package func hash128(_ high: UInt64, _ low: UInt64, domain: UInt64) -> LimitKey {
        var state = State(first, second)
        state.compress(domain)
        state.compress(high)
        state.compress(low)
        state.compress(16 << 56)
        let low = state.finish()
        return LimitKey(high: state.finishAgain(), low: low)
    }

    private struct State {
        var v0: UInt64
        var v1: UInt64
        var v2: UInt64
        var v3: UInt64

        init(_ first: UInt64, _ second: UInt64) {
            v0 = first ^ 0x736F_6D65_7073_6575
            v1 = second ^ 0x646F_7261_6E64_6F6D
            v2 = first ^ 0x6C79_6765_6E65_7261
            v3 = second ^ 0x7465_6462_7974_6573
        }

        @inline(__always)
        mutating func round() {
            v0 &+= v1
            v1 = (v1 << 13 | v1 >> 51) ^ v0
            v0 = v0 << 32 | v0 >> 32
            v2 &+= v3
            v3 = (v3 << 16 | v3 >> 48) ^ v2
            v0 &+= v3
            v3 = (v3 << 21 | v3 >> 43) ^ v0
            v2 &+= v1
            v1 = (v1 << 17 | v1 >> 47) ^ v2
            v2 = v2 << 32 | v2 >> 32
        }

        @inline(__always)
        mutating func compress(_ word: UInt64) {
            v3 ^= word
            round()
            v0 ^= word
        }

        @inline(__always)
        mutating func absorb(_ bytes: RawSpan) {
            let count = bytes.byteCount
            var offset = 0
            while offset &+ 8 <= count {
                compress(bytes.load64(offset))
                offset &+= 8
            }
            var last = UInt64(truncatingIfNeeded: count) << 56
            var shift: UInt64 = 0
            while offset < count {
                last |= UInt64(bytes[offset]) &<< shift
                shift &+= 8
                offset &+= 1
            }
            compress(last)
        }

        mutating func finish() -> UInt64 {
            v2 ^= 0xFF
            round()
            round()
            round()
            return v0 ^ v1 ^ v2 ^ v3
        }

        /// The second half of a 128-bit output.
        mutating func finishAgain() -> UInt64 {
            v1 ^= 0xDD
            round()
            round()
            round()
            return v0 ^ v1 ^ v2 ^ v3
        }
    }
}
