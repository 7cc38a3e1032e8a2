import Testing

/// Warnings about routes with `/*` below which contracts or the account page answer.
@Suite struct ShadowedRouteTests {
    private func found(_ route: String, contracts: String = "password@/api/v1") -> [String] {
        warnings("TOLLGATE_CONTRACTS=\"\(contracts)\"\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\nTOLLGATE_ROUTE_R=\"\(route) upstream=u\"\n")
    }

    @Test func aContractThatTakesPathsOfARouteIsNamedWithThemAndWithWhatToDo() {
        #expect(
            found("/api/v1/*") == [
                "a.env:3: TOLLGATE_ROUTE_R: /api/v1/auth/register /api/v1/auth/login /api/v1/auth/refresh /api/v1/auth/me never reach upstream=u: password@/api/v1 of TOLLGATE_CONTRACTS answers there, mount the contract elsewhere or leave it out of TOLLGATE_CONTRACTS if the upstream should answer"
            ])
    }

    @Test func thePageIsNamedOnceAndAnotherContractOnItsOwn() {
        let all = found("/{any}/*", contracts: "password@/api/v1 apple@/")
        #expect(all.count == 3)
        #expect(all.contains { $0.contains("/registerUser /login never reach upstream=u: apple@/ of TOLLGATE_CONTRACTS answers there") })
        #expect(all.contains { $0.hasSuffix("/web/* never reaches upstream=u: the account page answers there, give the upstream a route with the path /web/* if it should answer") })
    }

    @Test func aBracedNameTakesPathsToo() {
        #expect(found("/api/v1/auth/{action}").count == 1)
    }

    @Test(arguments: ["/passages/*", "/api/v1/passages/*", "DELETE /api/v1/*", "api.example.org/api/v1/*", "/web/*", "/*", "GET,POST /*"])
    func aRouteThatLosesNothingIsNotNamed(_ route: String) { #expect(found(route) == []) }

    @Test func withoutContractsNothingIsTaken() { #expect(found("/{any}/*", contracts: "") == []) }
}
