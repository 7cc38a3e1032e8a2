/// About how many different users were seen: a HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007) of 256 registers, which is off by some
/// 7%, and nearly exact for a few dozen. Sketches of several processes and days are joined without counting a user twice.
package struct UserSketch: Equatable, Sendable {
    package static let size = 256

    /// The highest rank that each register has seen.
    package private(set) var registers: [UInt8]

    package init() { registers = Array(repeating: 0, count: Self.size) }

    /// nil for other sizes.
    package init?(_ registers: [UInt8]) {
        guard registers.count == Self.size else { return nil }
        self.registers = registers
    }

    /// The register and the rank of a user's hash.
    package static func place(of hash: UInt64) -> (register: Int, rank: UInt8) {
        (Int(hash & 0xFF), UInt8((hash >> 8 | 1 << 56).trailingZeroBitCount + 1))
    }

    package mutating func add(_ hash: UInt64) {
        let (register, rank) = Self.place(of: hash)
        registers[register] = max(registers[register], rank)
    }

    package mutating func join(_ other: Self) {
        for index in registers.indices { registers[index] = max(registers[index], other.registers[index]) }
    }

    /// The estimated number of users.
    package var count: Int {
        let size = Double(Self.size)
        var (sum, empty) = (0.0, 0)
        for rank in registers {
            // A rank that no hash has comes from elsewhere.
            sum += 1 / Double(UInt64(1) << UInt64(min(rank, 57)))
            if rank == 0 { empty += 1 }
        }
        let estimate = 0.7213 / (1 + 1.079 / size) * size * size / sum
        guard estimate <= 2.5 * size, empty > 0 else { return Int(min(estimate, 1e15) + 0.5) }
        return Self.logarithm(of: empty)
    }

    /// `size * ln(size / empty)`, rounded: linear counting. Without the C library: the sum of the harmonic series between them is that
    /// logarithm but for half a term at each end.
    private static func logarithm(of empty: Int) -> Int {
        var sum = 0.0
        for number in empty..<size { sum += 2 / Double(2 * number + 1) }
        return Int(sum * Double(size) + 0.5)
    }
}
