import Credentials
import Gate
import HTTP
import Testing
import Wire

@testable import Contracts

@Suite struct CatalogueTests {
    /// No more and no less: a reason without words would be a 500.
    @Test(arguments: Catalogue.contracts.indices) func aContractHasWordsForTheRefusalsOfItsOperations(_ index: Int) {
        let contract = Catalogue.contracts[index]
        let needed = contract.endpoints.reduce(into: Set<Contract.Reason>()) { $0.formUnion($1.operation.reasons) }
        #expect(Set(contract.refusals.keys) == needed, "\(contract.id)")
    }

    /// Those for which an attestation of the app may be asked for: sign-ins, sign-ups, and where codes are sent or taken.
    @Test func refreshAndSignOutAreNoSignIns() {
        let names = Catalogue.endpoints.filter { if case .contract = $0.owner { $0.signsIn } else { false } }.map(\.name)
        #expect(
            names == [
                "password-register", "password-login", "provider-signin", "apple-register", "apple-login", "dlauth-sign-up",
                "dlauth-sign-in", "dlauth-resend-otp", "dlauth-verify-otp", "dlauth-forgot-password", "dlauth-reset-password",
                "anonymous-user", "anonymous-email-code", "anonymous-email-verify",
            ])
    }

    @Test func anAnswerThatDemandsARefreshTokenFailsWithoutOne() async throws {
        let world = try ContractWorld()
        for (value, status) in [(.refresh, 500), (.object([("tokens", .refresh)]), 500), (.refreshIfAny, 200)] as [(Contract.Value, Int)] {
            // Sessions of `apple` have none.
            let opening = Contract.Endpoint(name: "open", operation: .open, path: "/open", answer: [("refresh", value)])
            let request = LocalRequest(
                method: "POST", target: "/open", path: "/open", query: "", fields: [], body: [], client: IPAddress(high: 0, low: 1),
                requestID: "1")
            let answer = await Contract(id: .apple, dialect: .apple, base: "/", endpoints: [opening]).rows[0].answer(
                request, world.services)
            #expect(answer.status == status, "\(value): \(answer.body.rawBytes.text)")
        }
    }

    @Test func parametersOfTheQueryAreRead() throws {
        let cases = [
            ("", nil), ("?", nil), ("?grant_type=password", "password"), ("?x=1&grant_type=a%20b+c&grant_type=d", "a b c"),
            ("?grant_type", ""), ("?grant_type=%zz", nil), ("?other=1", nil),
        ]
        for (query, value) in cases {
            let sent = LocalRequest(
                method: "POST", target: "/token" + query, path: "/token", query: query, fields: [], body: [],
                client: IPAddress(high: 0, low: 1), requestID: "1")
            #expect(try ContractRequest(sent, in: .problem).parameter("grant_type") == value, "\(query)")
        }
    }
}
