/// The mark on RSA keys that Infineon's library made until 2017, in smart cards, TPMs and security keys, whose private half can
/// be computed from the public one (ROCA, CVE-2017-15361; Nemec et al., "The Return of Coppersmith's Attack", 2017).
///
/// Its primes are k·M + (65537ᵃ mod M), with M the product of the first primes. So modulo each of those the modulus is a
/// power of 65537, too; that of any other key is so modulo all of them once in some 240 million keys.
enum ROCAFingerprint {
    /// The powers of 65537 modulo a prime that have not every residue among them.
    private struct Powers {
        let prime: Int
        /// Whether each residue is one.
        let contain: [Bool]

        /// nil if every residue is one, which tells nothing.
        init?(modulo prime: Int) {
            var contain = [Bool](repeating: false, count: prime)
            var power = 1
            while !contain[power] {
                contain[power] = true
                power = power * 65_537 % prime
            }
            guard contain.dropFirst().contains(false) else { return nil }
            self.prime = prime
            self.contain = contain
        }
    }

    /// The odd primes that divide M for keys of every size.
    private static let primes = [
        3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127,
        131, 137, 139, 149, 151, 157, 163, 167,
    ]
    private static let tables = primes.compactMap { Powers(modulo: $0) }

    /// Whether `modulus`, a big-endian number, has it.
    static func isOn(_ modulus: [UInt8]) -> Bool {
        tables.allSatisfy { powers in
            powers.contain[modulus.reduce(0) { ($0 << 8 | Int($1)) % powers.prime }]
        }
    }
}
