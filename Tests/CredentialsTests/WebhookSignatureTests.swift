import Testing
import Wire

@testable import Credentials

/// Signatures of Standard Webhooks.
@Suite struct WebhookSignatureTests {
    /// The message of the specification's reference libraries.
    @Test func itIsThatOfStandardWebhooks() throws {
        let key = try #require(WebhookSignature.key(Array("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".utf8)))
        let fields = WebhookSignature.fields(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", body: Array(#"{"test": 2432232314}"#.utf8), keys: [key, [1, 2, 3]],
            now: WallTime(seconds: 1_614_265_330))
        #expect(fields[0] == "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek" && fields[1] == "webhook-timestamp: 1614265330")
        let signatures = fields[2].split(separator: " ")
        #expect(signatures.count == 3 && signatures[1] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test func secretsAreBase64BehindTheirPrefixAndBytesWithout() {
        let cases: [(String, [UInt8]?)] = [
            ("whsec_AQID", [1, 2, 3]), ("whsec_AQI=", [1, 2]), ("whsec_AQI", [1, 2]), ("whsec_", nil), ("whsec_A", nil), ("", nil),
            ("whsec_%%%%", nil), ("plain", Array("plain".utf8)),
        ]
        for (text, key) in cases { #expect(WebhookSignature.key(Array(text.utf8)) == key, "\(text)") }
    }
}
