import Testing
import Wire

@testable import Gate

@Suite struct KeyedHashTests {
    /// SipHash-1-3 of the bytes 0, 1, 2, … under the key 0, 1, …, 15, as other implementations have it.
    @Test func theHashIsSipHash13() {
        let hash = KeyedHash(first: 0x0706_0504_0302_0100, second: 0x0F0E_0D0C_0B0A_0908)
        let known: [(Int, UInt64)] = [(0, 0xABAC_0158_050F_C4DC), (1, 0xC9F4_9BF3_7D57_CA93), (7, 0xD392_7D98_9BB1_1140)]
        for (count, expected) in known {
            let bytes = (0..<count).map { UInt8($0) }
            #expect(hash.hash64(bytes.rawBytes) == expected, "\(count)")
        }
    }

    @Test func everyByteAndTheDomainAndTheKeyCount() {
        let hash = KeyedHash(first: 1, second: 2)
        var seen: Set<LimitKey> = []
        for count in 0..<40 {
            let zeros = [UInt8](repeating: 0, count: count)
            for domain in 0..<3 as Range<UInt64> { seen.insert(hash.hash128(zeros.rawBytes, domain: domain)) }
            for place in zeros.indices {
                var bytes = zeros
                bytes[place] = 1
                seen.insert(hash.hash128(bytes.rawBytes, domain: 0))
            }
            seen.insert(KeyedHash(first: 2, second: 2).hash128(zeros.rawBytes, domain: 0))
        }
        #expect(seen.count == 40 * 4 + 39 * 40 / 2)
    }

    @Test func theSameSecretGivesTheSameHash() {
        let value = Array("user-1".utf8)
        let hashed = { (secret: String) in KeyedHash(derivedFrom: Array(secret.utf8).rawBytes).hash128(value.rawBytes, domain: 1) }
        #expect(hashed("one") == hashed("one"))
        #expect(hashed("one") != hashed("two"))
        #expect(KeyedHash.random().hash64(value.rawBytes) != KeyedHash.random().hash64(value.rawBytes))
    }

    @Test func twoWordsHashLikeTheirBytes() {
        let hash = KeyedHash(first: 5, second: 6)
        var bytes = ByteBuffer()
        bytes.append(lowBytes: 0x1122_3344_5566_7788, count: 8)
        bytes.append(lowBytes: 0x99AA_BBCC_DDEE_FF00, count: 8)
        let words = hash.hash128(0x1122_3344_5566_7788, 0x99AA_BBCC_DDEE_FF00, domain: 4)
        #expect(words == hash.hash128(bytes.readable, domain: 4))
    }
}
