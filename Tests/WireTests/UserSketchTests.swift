import Testing
import Wire

/// Sketches of users beside the sets that they stand for.
@Suite struct UserSketchTests {
    private static func sketch(_ users: some Sequence<UInt64>) -> UserSketch {
        var sketch = UserSketch()
        for user in users {
            var generator = SplitMix64(seed: user)
            sketch.add(generator.next())
        }
        return sketch
    }

    @Test(arguments: [0, 1, 2, 10, 50, 200, 500, 700, 1_000, 5_000, 100_000])
    func theCountIsNearTheNumberOfUsers(_ users: Int) {
        for round in 0..<4 {
            let first = UInt64(round) << 32
            let count = Self.sketch(first..<first + UInt64(users)).count
            #expect(abs(count - users) <= max(users / 4, users < 20 ? 1 : 6), "\(count)")
        }
    }

    @Test func aJoinIsTheSketchOfBoth() {
        var joined = Self.sketch(0..<300)
        joined.join(Self.sketch(200..<900))
        #expect(joined == Self.sketch(0..<900))
        let before = joined
        joined.join(Self.sketch(0..<900))
        #expect(joined == before)
    }

    /// The registers may come from a damaged database.
    @Test func anyRegistersAreCounted() {
        for byte in [UInt8.min, 1, 57, 58, 255] {
            #expect(UserSketch([UInt8](repeating: byte, count: 256))?.count ?? -1 >= 0)
        }
        #expect(UserSketch([]) == nil && UserSketch([UInt8](repeating: 0, count: 257)) == nil)
        for hash in [UInt64.min, 0xFF, .max, 1 << 63, 0xFFFF_FFFF_FFFF_FF00] {
            let (register, rank) = UserSketch.place(of: hash)
            #expect((0..<256).contains(register) && (1...57).contains(rank))
        }
    }
}
