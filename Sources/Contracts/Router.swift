package import HTTP

/// Answers requests at the endpoints of contracts and account page. Any thread.
package struct Router: Sendable {
    let services: ContractServices
    let page: WebPage

    package init(_ services: ContractServices, page: WebPage) {
        self.services = services
        self.page = page
    }

    /// The response of the endpoint that the policy's route targets by `number` (`CatalogueEndpoint.number`).
    package func answer(_ number: UInt16, _ request: LocalRequest) async -> LocalResponse {
        guard let endpoint = Catalogue.numbered[number] else { preconditionFailure("no endpoint has the number \(number)") }
        return await endpoint.handler(self, request)
    }
}
