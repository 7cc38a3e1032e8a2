import Testing
import Wire

@testable import Credentials

/// Authenticated encryption of secrets at rest.
@Suite struct SealedBoxTests {
    private let box = SealedBox(secret: [UInt8](repeating: 7, count: 32), label: "tests")
    private let secret = Array("-----BEGIN PRIVATE KEY-----".utf8)

    @Test(arguments: [0, 1, 15, 16, 17, 5_000])
    func aSealedBoxOpens(_ count: Int) {
        let secret = [UInt8](repeating: 0xAB, count: count)
        let sealed = box.seal(secret, as: "name")
        #expect(sealed.count == count + 29)
        #expect(box.open(sealed, as: "name") == secret)
    }

    @Test func theSameSecretSealedTwiceLooksDifferent() {
        #expect(box.seal(secret, as: "name") != box.seal(secret, as: "name"))
    }

    @Test func nothingElseOpensIt() {
        let sealed = box.seal(secret, as: "name")
        #expect(box.open(sealed, as: "other") == nil)
        #expect(SealedBox(secret: [UInt8](repeating: 8, count: 32), label: "tests").open(sealed, as: "name") == nil)
        #expect(SealedBox(secret: [UInt8](repeating: 7, count: 32), label: "others").open(sealed, as: "name") == nil)
        for index in sealed.indices {
            for bit in 0..<8 {
                var changed = sealed
                changed[index] ^= 1 << bit
                #expect(box.open(changed, as: "name") == nil)
            }
            #expect(box.open(Array(sealed[..<index]), as: "name") == nil)
        }
        #expect(box.open(sealed + [0], as: "name") == nil)
    }

    /// Made with Python's `cryptography`: HKDF-SHA256 without salt, then AES-256-GCM.
    @Test func itAgreesWithTheStandardsVectors() {
        let sealed = box.seal(secret, as: "name", random: { [UInt8](repeating: 9, count: $0) })
        let hex = sealed.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        #expect(hex == "0109090909090909090909090901daf73d28ff366c96b75d13281b18d8145981fc675aa65deafa5f9c70a28ca11ffffdd1d016eeab9d348e")
    }
}
