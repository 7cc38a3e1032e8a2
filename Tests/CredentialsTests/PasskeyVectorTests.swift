import Foundation
import Testing
import Wire

@testable import Credentials

/// The test vectors of WebAuthn level 3 (§16) with keys of ES256, EdDSA and RS256, as lines of `Vectors/webauthn.ssv`:
/// `SECTION ALG ID ATTESTATION_OBJECT CLIENT_DATA VERDICT AUTHENTICATOR_DATA CLIENT_DATA SIGNATURE VERDICT`, bytes in hexadecimal.
@Suite struct PasskeyVectorTests {
    private static let lines: [[String]] = {
        let file = Bundle.module.resourceURL!.appending(path: "Vectors/webauthn.ssv")
        return try! String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
    }()

    private let rules = PasskeyRules(rpID: "example.org", origins: ["https://example.org"])

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex.utf8)
        return stride(from: 0, to: digits.count, by: 2).compactMap {
            UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)
        }
    }

    private func json(_ line: [String], _ response: [(name: String, hex: String)]) -> String {
        let id = Base64URL.encode(bytes(line[2]).rawBytes)
        let members = response.map { #""\#($0.name)":"\#(Base64URL.encode(bytes($0.hex).rawBytes))""# }.joined(separator: ",")
        return #"{"id":"\#(id)","rawId":"\#(id)","type":"public-key","response":{\#(members)}}"#
    }

    /// Users whom the authenticator has not verified and pages in those of others are refused here, and nothing else of the vectors.
    private func agrees(_ fault: String?, _ verdict: String) -> Bool {
        switch verdict {
        case "accepted": fault == nil
        case "unverified": fault == "the authenticator did not verify the user"
        case "embedded": fault == "the credential was used in a page of another origin"
        case _: false
        }
    }

    @Test func thereAreEight() {
        #expect(Self.lines.map { $0[0] } == ["16.2", "16.3", "16.4", "16.5", "16.6", "16.7", "16.10", "16.11"])
    }

    @Test(arguments: lines) func aCredentialIsRegisteredAndSignsIn(_ line: [String]) throws {
        let (id, algorithm) = (bytes(line[2]), try #require(SigningAlgorithm(name: line[1])))
        let (attestation, data, client, signature) = (bytes(line[3]), bytes(line[6]), bytes(line[7]), bytes(line[8]))
        let registration = json(line, [("attestationObject", line[3]), ("clientDataJSON", line[4])])
        let registered = passkeyFault(registration) { json throws(PasskeyFault) in
            let made = try rules.registration(json)
            guard made.credentialID == id, made.algorithm == algorithm else { throw PasskeyFault("another credential") }
        }
        #expect(agrees(registered, line[5]), "\(registered ?? "accepted")")
        let authData = try #require(CBOR(attestation)?["authData"]?.bytes)
        let key = try PasskeyKey(cose: try #require(AuthenticatorData(authData)?.credential).key)
        #expect(key.algorithm == algorithm && key.verifies(signature, over: data + Digest.sha256(client.rawBytes)))
        let der = try #require(key.der)
        let isEligible = try #require(AuthenticatorData(authData)).flags.contains(.backupEligible)
        let assertion = json(line, [("authenticatorData", line[6]), ("clientDataJSON", line[7]), ("signature", line[8])])
        let signedIn = passkeyFault(assertion) { json throws(PasskeyFault) in
            _ = try rules.assertion(json).verified(by: der, algorithm, isBackupEligible: isEligible)
        }
        #expect(agrees(signedIn, line[9]), "\(signedIn ?? "accepted")")
    }
}
