import Credentials
import Testing
import Wire

@testable import Settings
@testable import tollgate

@Suite struct TrustLineTests {
    static let secret = Array("0123456789abcdef0123456789abcdef".utf8)
    static let jwks = Array(
        #"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#.utf8)

    /// One key whose private half can be computed is one too many in a file that the operator holds.
    @Test func aForgeableKeyInAFileIsAFaultAndAWeakOneAWarning() {
        func found(_ key: String) -> Findings {
            let jwks = #"{"keys":[\#(key),{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#
            return load("TOLLGATE_TRUST_T=\"audience=a jwks=k.json\"\n" + oneRoute, files: ["k.json": Array(jwks.utf8)]).findings
        }
        let forgeable = found(forgeableJWK)
        #expect(forgeable.faults.map(\.message) == [#""jwks=k.json": key 'card' \#(forgeableReason)"#] && forgeable.warnings.isEmpty)
        let weak = found(#"{"kty":"RSA","kid":"weak","n":"wf8","e":"AQAB"}"#)
        #expect(weak.faults.isEmpty && weak.warnings.count == 1)
        let provider = load("TOLLGATE_PROVIDER_APPLE=\"client-ids=x jwks=k.json\"\n" + oneRoute, files: ["k.json": Array(#"{"keys":[\#(forgeableJWK)]}"#.utf8)])
        #expect(provider.findings.faults.map(\.message).first?.contains(forgeableReason) == true)
    }

    @Test func faultsNeverContainTheSecret() {
        let loaded = load("TOLLGATE_TRUST_T=\"audience=a secret-file=s algorithms=HS512\"\n" + oneRoute, files: ["s": Self.secret])
        #expect(!loaded.findings.faults.map(\.text).joined().contains("0123456789"))
    }
}

/// A public key with the ROCA fingerprint: its modulus is 65537¹²⁸, which is a power of 65537 modulo every prime.
let forgeableJWK: String = {
    var number: [UInt8] = [1]
    for _ in 0..<128 {
        var carry = 0
        let (high, low) = (number + [0, 0], [0, 0] + number)
        number = zip(high, low).reversed().map { pair in
            carry = carry >> 8 + Int(pair.0) + Int(pair.1)
            return UInt8(carry & 0xFF)
        }.reversed()
        if carry > 0xFF { number.insert(1, at: 0) }
    }
    return #"{"kty":"RSA","kid":"card","n":"\#(Base64URL.encode(number.rawBytes))","e":"AQAB"}"#
}()
let forgeableReason = "has the ROCA fingerprint (CVE-2017-15361): its private key can be computed; replace it with a key from OpenSSL or a patched device"
