/// Detector of the ROCA vulnerability (CVE-2017-15361): RSA keys from Infineon's library until 2017 (smart cards, TPMs, security
/// keys), whose private key can be computed from the public one. See Nemec et al., "The Return of Coppersmith's Attack", 2017.
///
/// The primes of such a key are k·M + (65537ᵃ mod M), where M is the product of the first primes. The modulus is therefore a
/// power of 65537 modulo each of those primes. About one in 240 million other keys matches by chance.
enum ROCAFingerprint {
    /// The powers of 65537 modulo a prime.
    private struct Powers {
        let prime: Int
        /// Indexed by residue: whether it is a power.
        let contain: [Bool]

        /// nil if every residue is a power, since such a prime excludes no key.
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

    /// The odd prime factors of M that all key sizes share.
    private static let primes = [
        3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127,
        131, 137, 139, 149, 151, 157, 163, 167,
    ]
    private static let tables = primes.compactMap { Powers(modulo: $0) }

    /// Whether `modulus`, big-endian, has the fingerprint.
    static func isOn(_ modulus: [UInt8]) -> Bool {
        tables.allSatisfy { powers in
            powers.contain[modulus.reduce(0) { ($0 << 8 | Int($1)) % powers.prime }]
        }
    }
}
