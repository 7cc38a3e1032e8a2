import Testing
import Wire

@testable import Credentials

@Suite struct DigestTests {
    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ])
    func sha256IsThatOfTheStandard(_ text: String, _ expected: String) {
        let digest = Digest.sha256(text.bytes.rawBytes)
        #expect(hex(digest) == expected)
    }

    /// RFC 4231 §4.2, §4.3 and §4.7 (a key longer than a block).
    @Test(arguments: [
        (
            [UInt8](repeating: 0x0B, count: 20), "Hi There",
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), "what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            [UInt8](repeating: 0xAA, count: 131), "Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
    ])
    func hmacIsThatOfTheStandard(_ key: [UInt8], _ text: String, _ expected: String) {
        let code = Digest.hmacSHA256(text.bytes.rawBytes, key: key.rawBytes)
        #expect(hex(code) == expected)
    }

    @Test func oneContextAuthenticatesAnyNumberOfMessages() {
        let key = SecureRandom.bytes(200)
        for hash in HashFunction.allCases {
            let context = MACContext(key: key.rawBytes, hash: hash)
            for length in [0, 1, 63, 64, 65, 127, 128, 129, 1000] {
                let message = SecureRandom.bytes(length)
                let expected = Digest.hmac(message.rawBytes, key: key.rawBytes, hash: hash)
                let code = context.authenticate(message.rawBytes)
                let holds = context.isValid(expected.rawBytes, over: message.rawBytes)
                #expect(code == expected)
                #expect(holds)
            }
        }
    }

    @Test func anEmptyKeyIsAKey() {
        let code = Digest.hmacSHA256("".bytes.rawBytes, key: RawSpan())
        #expect(hex(code) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
    }

    @Test(arguments: [("", "", true), ("a", "a", true), ("a", "b", false), ("a", "", false), ("ab", "abc", false)])
    func equalityIsThatOfTheBytes(_ left: String, _ right: String, _ equal: Bool) {
        let result = Digest.constantTimeEquals(left.bytes.rawBytes, right.bytes.rawBytes)
        #expect(result == equal)
    }

    @Test func randomBytesDiffer() {
        #expect(SecureRandom.bytes(32) != SecureRandom.bytes(32))
        #expect(SecureRandom.bytes(0).isEmpty)
    }
}
