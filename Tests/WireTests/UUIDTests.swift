import Testing
import Wire

@Suite struct UUIDTests {
    private func parsed(_ text: String) -> UUID? { UUID(parsing: text) }

    @Test func itIsWrittenAndReadInItsOneForm() {
        let id = UUID(high: 0x550e_8400_e29b_41d4, low: 0xa716_4466_5544_0000)
        #expect(id.text == "550e8400-e29b-41d4-a716-446655440000")
        #expect(parsed(id.text) == id)
        #expect(parsed("550E8400-E29B-41D4-A716-446655440000") == id)
        for other in [
            "", "550e8400e29b41d4a716446655440000", "550e8400-e29b-41d4-a716-44665544000", "550e8400-e29b-41d4-a716-4466554400000",
            "550e8400-e29b-41d4-a716-44665544000g", "550e8400-e29b-41d4a-716-446655440000", "{50e8400-e29b-41d4-a716-446655440000",
        ] { #expect(parsed(other) == nil) }
    }

    @Test func itsBytesAreThoseOfItsText() {
        let id = UUID(high: 0x0102_0304_0506_0708, low: 0x090a_0b0c_0d0e_0f10)
        let bytes = id.bytes
        let read = UUID(bytes: bytes.rawBytes)
        let short = UUID(bytes: bytes.rawBytes.extracting(0..<15))
        #expect(bytes == Array(1...16))
        #expect(read == id)
        #expect(short == nil)
    }

    @Test func version4KeepsAllBitsButTheMarks() {
        #expect(UUID(random: (.max, .max)).text == "ffffffff-ffff-4fff-bfff-ffffffffffff")
        #expect(UUID(random: (0, 0)).text == "00000000-0000-4000-8000-000000000000")
    }

    /// RFC 9562 §A.6.
    @Test func version7BeginsWithTheTime() {
        let now = WallTime(microseconds: 0x017F_22E2_79B0 * 1_000)
        let id = UUID(at: now, random: (0xCC3 << 52, 0x18C4_DC0C_0C07_398F << 2))
        #expect(id.text == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f")
        let later = UUID(at: WallTime(microseconds: now.microseconds + 1_000), random: (0, 0))
        #expect(id < later)
        #expect(!(later < id))
    }
}
