import Credentials
import Testing
import Wire
import Workbench

@testable import Settings
@testable import tollgate

@Suite struct TrustLineTests {
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
        let provider = load(
            "TOLLGATE_PROVIDER_APPLE=\"client-ids=x jwks=k.json\"\n" + oneRoute,
            files: ["k.json": Array(#"{"keys":[\#(forgeableJWK)]}"#.utf8)])
        #expect(provider.findings.faults.map(\.message).first?.contains(forgeableReason) == true)
    }

    @Test func faultsNeverContainTheSecret() {
        let loaded = load("TOLLGATE_TRUST_T=\"audience=a secret-file=s algorithms=HS512\"\n" + oneRoute, files: ["s": sharedSecret])
        #expect(!loaded.findings.faults.map(\.text).joined().contains("0123456789"))
    }
}
