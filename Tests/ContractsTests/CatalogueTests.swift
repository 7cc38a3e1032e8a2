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
