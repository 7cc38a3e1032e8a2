import Testing
import Wire

@testable import Credentials

@Suite struct APIKeyTextTests {
    /// Known bytes, of which those from 248 on are passed over; the checksum is zlib's CRC-32 in base 62.
    @Test func aKeyHasLettersDigitsAndItsChecksum() throws {
        let text = APIKeyText.make { (0..<$0).map { UInt8(truncatingIfNeeded: $0 * 5 + 200) } }
        #expect(text == "tg_EJOTYdinsx49EJOTYdinsx27CHMRWbglqv05AFKPUZe2DzQlP")
        var reader = APIKeyReader()
        let digest = try #require(text.withRawBytes { reader.digest(of: $0) })
        let expected = try #require(text.withRawBytes { APIKeyDigest(Digest.sha256($0).rawBytes) })
        #expect(digest == expected)
        #expect(Set((0..<50).map { _ in APIKeyText.make(SecureRandom.bytes) }).count == 50)
    }

    @Test func aMistypedKeyIsNone() {
        let text = Array(APIKeyText.make(SecureRandom.bytes).utf8)
        #expect(isWhole(text) && text.count == APIKeyText.count)
        for offset in text.indices {
            var other = text
            other[offset] = other[offset] == UInt8(ascii: "a") ? UInt8(ascii: "b") : UInt8(ascii: "a")
            #expect(!isWhole(other), "\(offset)")
        }
        for bytes in [Array(text.dropLast()), text + [0x61], [], Array("tg_".utf8), Array(repeating: 0xFF, count: text.count)] {
            #expect(!isWhole(bytes))
        }
    }

    private func isWhole(_ bytes: [UInt8]) -> Bool { APIKeyText.isWhole(bytes.rawBytes) }
}
