import Credentials
import Testing
import Wire

@Suite struct OneTimePasswordTests {
    private let secret = Array("12345678901234567890".utf8)

    /// The last six digits of the codes in RFC 6238, appendix B, for SHA-1.
    @Test(arguments: [
        (59, "287082"), (1_111_111_109, "081804"), (1_111_111_111, "050471"), (1_234_567_890, "005924"), (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ])
    func theCodesAreThoseOfTheRFC(_ time: Int64, _ code: String) {
        let step = time / OneTimePassword.stepSeconds
        #expect(OneTimePassword.code(of: secret, step: step) == code)
        for (skew, found) in [(-60, nil), (-30, step), (0, step), (30, step), (60, nil)] as [(Int64, Int64?)] where time + skew >= 0 {
            #expect(OneTimePassword.step(of: Array(code.utf8), secret: secret, at: WallTime(seconds: time + skew)) == found, "\(skew)")
        }
        for wrong in ["", "000000", String(code.dropLast()), code + "0"] {
            #expect(OneTimePassword.step(of: Array(wrong.utf8), secret: secret, at: WallTime(seconds: time)) == nil)
        }
    }

    @Test func secretsAreWrittenInBase32() {
        #expect(OneTimePassword.base32(secret) == "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
        #expect(OneTimePassword.base32([]) == "" && OneTimePassword.base32([0xFF, 0, 0x55, 0xAA, 1]) == "74AFLKQB")
    }
}
