import Testing

@testable import Settings
@testable import tollgate

/// Warnings about routes with `/*` below which contracts or the account page answer.
@Suite struct ShadowedRouteTests {
    private func found(_ route: String, contracts: String = "password@/api/v1") -> [String] {
        warnings(
            "TOLLGATE_CONTRACTS=\"\(contracts)\"\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\nTOLLGATE_ROUTE_R=\"\(route) upstream=u\"\n"
        )
        .filter { $0.contains("TOLLGATE_ROUTE_R") }
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
        #expect(
            all.contains {
                $0.hasSuffix(
                    "/web/* never reaches upstream=u: the account page answers there, give the upstream a route with the path /web/* if it should answer"
                )
            })
    }

    @Test func aBracedNameTakesPathsToo() {
        #expect(found("/api/v1/auth/{action}").count == 1)
    }

    @Test(arguments: ["/passages/*", "/api/v1/passages/*", "DELETE /api/v1/*", "api.example.org/api/v1/*", "/web/*", "/*", "GET,POST /*"])
    func aRouteThatLosesNothingIsNotNamed(_ route: String) { #expect(found(route) == []) }

    @Test func withoutContractsNothingIsTaken() { #expect(found("/{any}/*", contracts: "") == []) }

    /// The loss of such paths is no fault of its line; `doctor` asks the upstream.
    @Test func whatARouteForAllPathsLosesIsShownWithoutAWarning() {
        let loaded = load(
            "TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_UPSTREAM_U=http://127.0.0.1:9001\nTOLLGATE_ROUTE_R=\"/* upstream=u\"\nTOLLGATE_ROUTE_K=\"/oauth/revoke upstream=u\"\n"
        )
        #expect(loaded.findings.warnings == [])
        #expect(loaded.partial.taken.map(\.owner) == ["the gateway", "password@/api/v1 of TOLLGATE_CONTRACTS", "the account page"])
        let paths = loaded.partial.taken.map(\.paths)
        #expect(
            paths[0].contains("/.well-known/jwks.json") && !paths[0].contains("/oauth/revoke") && paths[1].contains("/api/v1/auth/me")
                && paths[2] == ["/web/*"])
        let text = CheckTable.text(loaded.partial)
        #expect(text.contains("the account page") && text.contains("/web/*\n`tollgate doctor` asks upstreams"), "\(text)")
    }
}
