import Testing

@testable import tollgate

/// `tollgate explain` reads from `/readyz` of the running gateway which addresses of an upstream are out.
@Suite struct AddressDiagnosisTests {
    private static let ready =
        #"{"status":"degraded","checks":[{"name":"serving","status":"ready"},"#
        + #"{"name":"upstream api 10.0.0.1:80","status":"degraded","reason":"ejected until 2027-01-15T08:00:10.000Z: 5 failures in a row"},"#
        + #"{"name":"upstream api2 10.0.0.9:80","status":"degraded","reason":"another's"},"#
        + #"{"name":"upstream api 10.0.0.2:80/v2","status":"degraded","reason":"does not answer its health check"}]}"#

    @Test func theAddressesOfOneUpstreamAreNamedWithTheirReasons() {
        #expect(
            AddressDiagnosis.reasons(Array(Self.ready.utf8), prefix: "upstream api ") == [
                "10.0.0.1:80: ejected until 2027-01-15T08:00:10.000Z: 5 failures in a row",
                "10.0.0.2:80/v2: does not answer its health check",
            ])
    }

    /// Another server may listen at the admin address.
    @Test(arguments: ["", "hello", "[]", #"{"checks":[{"name":"upstream api x","reason":3}]}"#, String(ready.dropLast())])
    func anythingElseSaysNothing(_ text: String) {
        #expect(AddressDiagnosis.reasons(Array(text.utf8), prefix: "upstream api ") == [])
    }
}
