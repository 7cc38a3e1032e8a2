import Testing
import Wire

@testable import Credentials

/// The fault that `body` finds in a credential; nil if it accepts it.
func passkeyFault(_ credential: String, _ body: (RawSpan) throws(PasskeyFault) -> Void) -> String? {
    let bytes = credential.bytes
    do throws(PasskeyFault) {
        try body(bytes.rawBytes)
        return nil
    } catch { return error.message }
}

/// Credentials of WebAuthn: what is accepted, and why others are not.
@Suite struct PasskeyTests {
    private typealias Change = (inout SoftAuthenticator) -> Void

    private let rules = PasskeyRules(rpID: "example.org", origins: ["https://example.org", "android:apk-key-hash:AAAA"])

    @Test(arguments: [SigningAlgorithm.ES256, .EdDSA, .RS256])
    func aPasskeyIsRegisteredAndSignsIn(_ algorithm: SigningAlgorithm) throws {
        var device = SoftAuthenticator(Keys.make(algorithm))
        device.flags = 0x1D
        let made = try rules.registration(device.registration().bytes.rawBytes)
        let expected = NewPasskey(
            credentialID: device.id, publicKey: device.publicKey, algorithm: algorithm, signCount: 7, isBackupEligible: true,
            isBackedUp: true, aaguid: UUID(high: 0x0001_0203_0405_0607, low: 0x0809_0A0B_0C0D_0E0F), transports: ["internal", "hybrid"],
            challenge: device.challenge)
        #expect(made == expected)
        let assertion = try rules.assertion(device.assertion().bytes.rawBytes)
        let signIn = try assertion.verified(by: made.publicKey, algorithm, isBackupEligible: true)
        #expect(assertion.credentialID == device.id && assertion.userHandle == Array("user".utf8))
        #expect(assertion.challenge == device.challenge && signIn == (7, true))
        let damaged: [[UInt8]] = [[], [0x30], [UInt8](repeating: 0, count: 64), assertion.signature + [0], assertion.signature.dropLast()]
        for signature in damaged {
            let other = UnverifiedAssertion(
                credentialID: device.id, userHandle: nil, challenge: [], data: assertion.data, signed: assertion.signed,
                signature: signature)
            #expect(throws: PasskeyFault("the signature is not valid")) {
                try other.verified(by: made.publicKey, algorithm, isBackupEligible: true)
            }
        }
        #expect(throws: PasskeyFault("the signature is not valid")) {
            try assertion.verified(by: SoftAuthenticator(Keys.make(algorithm)).publicKey, algorithm, isBackupEligible: true)
        }
    }

    /// The changes that a registration and an assertion have in common, and what is said of them.
    private var changes: [(fault: String?, Change)] {
        let (embedded, backedUp) = ("page of another origin", "backed up and cannot")
        return [
            (nil, { $0.origin = "android:apk-key-hash:AAAA" }),
            (nil, { $0.clientMembers = #","crossOrigin":false,"x":[{"crossOrigin":1}]"# }),
            (nil, { $0.extensions = [0xA1] + SoftAuthenticator.text("credProtect") + [2] }),
            (nil, { $0.id = [UInt8](repeating: 1, count: 1_023) }),
            (nil, { $0.flags = 0xD | 0x22 }), ("1 to 1023", { $0.id = [] }), ("1 to 1023", { $0.id = [UInt8](repeating: 1, count: 1_024) }),
            ("origin", { $0.origin = "https://example.org:8443" }), ("origin", { $0.origin = "https://www.example.org" }),
            ("origin", { $0.origin = "http://example.org" }), ("origin", { $0.origin = "https://Example.org" }),
            (embedded, { $0.clientMembers = #","crossOrigin":true"# }), (embedded, { $0.clientMembers = #","crossOrigin":"false""# }),
            (embedded, { $0.clientMembers = #","topOrigin":"https://evil.example""# }), ("rp-id", { $0.rpID = "example.com" }),
            ("JSON object", { $0.clientMembers = #","origin":"https://example.org""# }), ("verify the user", { $0.flags = 0x09 }),
            ("verify the user", { $0.flags = 0x0C }), (backedUp, { $0.flags = 0x15 }), ("malformed", { $0.extensions = [0x80] }),
            ("malformed", { $0.extensions = [0xA0, 0] }),
            (
                "malformed",
                {
                    $0.extensions = [0xA0]; $0.flags = 0x0D; $0.extensions = [0xBF, 0xFF]
                }
            ),
        ]
    }

    @Test func registrationAndSignInRefuseTheSame() {
        for (index, row) in changes.enumerated() {
            var device = SoftAuthenticator(Keys.es256)
            row.1(&device)
            let found = [
                passkeyFault(device.registration()) { json throws(PasskeyFault) in _ = try rules.registration(json) },
                passkeyFault(device.assertion()) { json throws(PasskeyFault) in
                    _ = try rules.assertion(json).verified(by: device.publicKey, .ES256, isBackupEligible: true)
                },
            ]
            let agrees = found.allSatisfy { $0 == row.fault || row.fault.map($0?.contains ?? { _ in false }) ?? false }
            #expect(agrees, "row \(index): \(found)")
        }
    }

    @Test func aRegistrationIsRefusedForItsAttestationObject() throws {
        let cose = SoftAuthenticator(Keys.es256).cose
        let small = SoftAuthenticator(Keys.make(.RS256)).cose
        let rows: [(fault: String?, Change)] = [
            (nil, { ($0.format, $0.statement) = ("packed", [0xA1] + SoftAuthenticator.text("alg") + [0x26]) }),
            (nil, { ($0.format, $0.statement) = ("of tomorrow", [0xA0]) }), ("no statement", { $0.statement = [0xA1, 1, 2] }),
            ("attestationObject", { $0.statement = [0x80] }), ("attestationObject", { $0.statement = [0xA2, 1, 2, 1, 2] }),
            ("attestationObject", { $0.statement = [0xBF, 0xFF] }), ("attestationObject", { $0.statement = [0xC0, 0xA0] }),
            ("not one of ES256", { $0.coseKey = [0xA0] }), ("not one of ES256", { $0.coseKey = [0x01] }),
            ("not one of ES256", { $0.coseKey = cose.replacing([0x20, 1], with: [0x20, 2]) }),
            ("not one of ES256", { $0.coseKey = cose.replacing([3, 0x26], with: [3, 0x27]) }),
            ("lacks a parameter", { $0.coseKey = Array(cose.prefix(42)) + [0x22, 0xF5] }),
            ("lacks a parameter", { $0.coseKey = [0xA4] + cose.dropFirst().prefix(41) }),
            ("lacks a parameter", { $0.coseKey = cose.prefix(9) + [0x1F] + cose[10..<41] + cose[42...] }),
            ("is not valid", { $0.coseKey = cose.dropLast() + [cose.last! ^ 1] }), ("malformed", { $0.coseKey = cose.dropLast() }),
            ("malformed", { $0.coseKey = cose + [0] }), (nil, { $0.coseKey = small }),
            ("needs at least 2048", { $0.coseKey = Self.rsa1024 }),
            ("needs at least 2048", { $0.coseKey = [0xA4] + small.dropFirst().prefix(7) + SoftAuthenticator.bytes([]) + [0x21, 0x40] }),
        ]
        for (index, row) in rows.enumerated() {
            var device = SoftAuthenticator(Keys.es256)
            row.1(&device)
            let found = passkeyFault(device.registration()) { json throws(PasskeyFault) in _ = try rules.registration(json) }
            let agrees = found == row.fault || row.fault.map(found?.contains ?? { _ in false }) ?? false
            #expect(agrees, "row \(index): \(found ?? "accepted")")
        }
    }

    /// 1,024 bits, all of them 1.
    private static let rsa1024: [UInt8] =
        [0xA4, 1, 3, 3, 0x39, 1, 0, 0x20] + SoftAuthenticator.bytes([UInt8](repeating: 0xFF, count: 128)) + [0x21, 0x43, 1, 0, 1]

    /// Each row replaces text of a correct credential.
    @Test func theJSONIsRefusedForItsMembers() {
        let device = SoftAuthenticator(Keys.eddsa)
        let id = Base64URL.encode(device.id.rawBytes)
        let rows: [(text: String, by: String, fault: String)] = [
            (#""type":"public-key""#, #""type":"password""#, "type must be"), (#""type":"public-key","#, "", "type must be"),
            (#""rawId":"\#(id)""#, #""rawId":"AAAA""#, "rawId must be equal"), (#""id":"\#(id)""#, #""id":"\#(id)=""#, "id must be text"),
            (#""id":"\#(id)""#, #""id":7"#, "id must be text"), (#""response":{"#, #""response":[],"x":{"#, "clientDataJSON must be text"),
            (#""clientDataJSON":""#, #""clientDataJSON":"!"#, "clientDataJSON must be text"),
            (#""userHandle":"dXNlcg""#, #""userHandle":"\#(String(repeating: "A", count: 87))""#, "more than 64"),
            (#""userHandle":"dXNlcg""#, #""userHandle":7"#, "userHandle must be text"),
            (#""signature":""#, #""signature":"AA"#, "signature is not valid"), (#""signature""#, #""sig""#, "signature must be text"),
            (#""authenticatorData":""#, #""authenticatorData":"AAAA"#, "data is malformed"),
            (#"{"id""#, #"[{"id""#, "is not a JSON object"),
        ]
        for row in rows {
            let found = passkeyFault(device.assertion().replacing(row.text, with: row.by, maxReplacements: 1)) {
                json throws(PasskeyFault) in
                _ = try rules.assertion(json).verified(by: device.publicKey, .EdDSA, isBackupEligible: true)
            }
            #expect(found?.contains(row.fault) == true, "\(row.by): \(found ?? "accepted")")
        }
    }

    @Test func anAssertionIsOfItsKeyAlgorithmAndKindOfBackup() throws {
        let device = SoftAuthenticator(Keys.es256)
        let assertion = try rules.assertion(device.assertion(userHandle: nil).bytes.rawBytes)
        #expect(assertion.userHandle == nil)
        let rows: [(key: [UInt8], algorithm: SigningAlgorithm, isEligible: Bool, fault: String?)] = [
            (device.publicKey, .ES256, true, nil), (device.publicKey, .ES256, false, "can be backed up"),
            (device.publicKey, .RS256, true, "does not fit"), (device.publicKey, .HS256, true, "does not fit"),
            (device.publicKey.dropLast(), .ES256, true, "is not valid"), ([], .ES256, true, "is not valid"),
        ]
        for row in rows {
            let found = passkeyFault("{}") { _ throws(PasskeyFault) in
                _ = try assertion.verified(by: row.key, row.algorithm, isBackupEligible: row.isEligible)
            }
            #expect(row.fault.map { found?.contains($0) ?? false } ?? (found == nil), "\(row.algorithm.name): \(found ?? "accepted")")
        }
    }
}

/// Challenges: sealed, of one purpose, for five minutes.
@Suite struct PasskeyChallengeTests {
    @Test func aChallengeOpensForItsPurposeUntilItEnds() {
        let secret = [UInt8](repeating: 7, count: 32)
        let (challenges, start) = (PasskeyChallenges(secret: secret), WallTime(seconds: now))
        // The last second of a day, too, and by the clock of another gateway.
        let night = WallTime(seconds: now / 86_400 * 86_400 - 1)
        let atNight = challenges.issue(.authentication, subject: "a", now: night)
        for seconds in [-100, 0, 100] as [Int64] {
            #expect(challenges.open(atNight, purpose: .authentication, now: night.advanced(seconds: seconds)) != nil)
        }
        for subject in ["", "account", String(repeating: "é", count: 40)] {
            let challenge = challenges.issue(.authentication, subject: subject, now: start)
            let expected = PasskeyChallenge(subject: subject, endsAt: start.advanced(seconds: 300))
            let last = WallTime(microseconds: start.microseconds + 299_999_999)
            let others = PasskeyPurpose.allCases.filter { challenges.open(challenge, purpose: $0, now: last) != nil }
            let damaged = challenge.indices.contains { index in
                var changed = challenge
                changed[index] ^= 1
                return challenges.open(changed, purpose: .authentication, now: start) != nil
            }
            #expect(challenges.open(challenge, purpose: .authentication, now: last) == expected && others == [.authentication] && !damaged)
            #expect(challenges.open(challenge, purpose: .authentication, now: start.advanced(seconds: 300)) == nil)
            #expect(
                PasskeyChallenges(secret: [UInt8](repeating: 8, count: 32)).open(challenge, purpose: .authentication, now: start) == nil)
        }
        let lengths = Set((0..<64).map { challenges.issue(.signUp, subject: String(repeating: "a", count: $0), now: start).count })
        #expect(lengths == [29 + 8 + 64])
    }
}
