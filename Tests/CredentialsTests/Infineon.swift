import Wire

/// Moduli as Infineon's library made them: each prime was k·M + (65537ᵃ mod M), with M the product of the first primes, so
/// that the modulus has that form too.
enum Infineon {
    /// The product of 2, 3, 5 … 701, of which the library's primes are for keys of 1,984 bits and more, or of all up to
    /// 1,427 from 3,968 bits on.
    private static func primorial(bits: Int) -> Natural {
        let last: UInt32 = bits < 3_968 ? 701 : 1_427
        return (2...last).filter { number in !(2..<number).contains { number.isMultiple(of: $0) } }
            .reduce(Natural(1)) { $0.times($1) }
    }

    static func timesGenerator(_ number: [UInt8]) -> [UInt8] { Natural(number).times(65_537).bytes }
    static func timesThree(_ number: [UInt8]) -> [UInt8] { Natural(number).times(3).bytes }

    /// An odd number of exactly `bits` bits; its bytes, the highest first.
    static func modulus(bits: Int, seed: UInt64) -> [UInt8] {
        var random = SplitMix64(seed: seed)
        let product = primorial(bits: bits)
        var power = Natural(1)
        for _ in 0..<(random.next() % 200) { power = power.times(65_537).reduced(by: product) }
        // M has fewer bits than the key: k fills the rest, the highest bit set.
        let missing = bits - product.bits
        while true {
            var factor = Natural(1)
            for _ in 0..<missing { factor = factor.doubled(plus: random.next() & 1 == 1) }
            let modulus = product.times(factor).plus(power)
            if modulus.bits == bits { return modulus.bytes }
        }
    }
}

/// An integer of any size: schoolbook arithmetic on 32-bit digits, the lowest first.
private struct Natural {
    private var digits: [UInt32]

    init(_ value: UInt32) { digits = [value] }

    init(_ bytes: [UInt8]) {
        self = bytes.reduce(Natural(0)) { $0.times(256).plus(Natural(UInt32($1))) }
    }

    private init(digits: [UInt32]) {
        self.digits = digits
        while self.digits.count > 1, self.digits.last == 0 { self.digits.removeLast() }
    }

    var bits: Int { digits.count * 32 - (digits.last?.leadingZeroBitCount ?? 0) }

    /// The highest first, without leading zeros.
    var bytes: [UInt8] {
        let all = digits.reversed().flatMap { digit in [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: digit >> $0) } }
        return Array(all.drop { $0 == 0 })
    }

    func times(_ factor: UInt32) -> Natural {
        var out: [UInt32] = []
        var carry: UInt64 = 0
        for digit in digits {
            carry += UInt64(digit) * UInt64(factor)
            out.append(UInt32(truncatingIfNeeded: carry))
            carry >>= 32
        }
        return Natural(digits: out + [UInt32(carry)])
    }

    func times(_ other: Natural) -> Natural {
        var sum = Natural(0)
        for (place, digit) in other.digits.enumerated() {
            sum = sum.plus(Natural(digits: [UInt32](repeating: 0, count: place) + times(digit).digits))
        }
        return sum
    }

    func plus(_ other: Natural) -> Natural {
        var out: [UInt32] = []
        var carry: UInt64 = 0
        for place in 0..<max(digits.count, other.digits.count) {
            carry += UInt64(place < digits.count ? digits[place] : 0) + UInt64(place < other.digits.count ? other.digits[place] : 0)
            out.append(UInt32(truncatingIfNeeded: carry))
            carry >>= 32
        }
        return Natural(digits: out + [UInt32(carry)])
    }

    func doubled(plus one: Bool) -> Natural { times(2).plus(Natural(one ? 1 : 0)) }

    /// The rest of a division, by shifting and subtracting.
    func reduced(by divisor: Natural) -> Natural {
        var rest = self
        var multiples = [divisor]
        while let last = multiples.last, !rest.isBelow(last) { multiples.append(last.times(2)) }
        for multiple in multiples.reversed() where !rest.isBelow(multiple) { rest = rest.minus(multiple) }
        return rest
    }

    private func isBelow(_ other: Natural) -> Bool {
        if digits.count != other.digits.count { return digits.count < other.digits.count }
        for (mine, theirs) in zip(digits.reversed(), other.digits.reversed()) where mine != theirs { return mine < theirs }
        return false
    }

    private func minus(_ other: Natural) -> Natural {
        var out: [UInt32] = []
        var borrow: Int64 = 0
        for place in digits.indices {
            let difference = Int64(digits[place]) - Int64(place < other.digits.count ? other.digits[place] : 0) + borrow
            out.append(UInt32(truncatingIfNeeded: difference))
            borrow = difference >> 32
        }
        return Natural(digits: out)
    }
}
