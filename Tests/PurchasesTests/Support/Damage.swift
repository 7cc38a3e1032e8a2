import Wire

/// Damages bytes in the ways that networks and attackers do.
struct Damage {
    private var random: SplitMix64

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(max(1, bound))) }

    /// `input` with one to four changes; `words` are pasted in now and then. The new bytes are ASCII.
    mutating func damaged(_ input: [UInt8], _ words: [String]) -> [UInt8] {
        var bytes = input
        for _ in 0...below(3) {
            let at = below(bytes.count)
            switch below(6) {
            case 0 where !bytes.isEmpty: bytes[at] ^= 1 << UInt8(below(7))
            case 1 where !bytes.isEmpty: bytes[at] = UInt8(0x20 + below(0x5F))
            case 2 where !bytes.isEmpty: bytes.removeSubrange(at..<min(bytes.count, at + 1 + below(8)))
            case 3: bytes.insert(contentsOf: Array(words[below(words.count)].utf8), at: at)
            case 4: bytes.insert(contentsOf: bytes[at..<min(bytes.count, at + below(40))], at: below(bytes.count))
            case _: bytes = Array(bytes.prefix(at))
            }
        }
        return bytes
    }
}
