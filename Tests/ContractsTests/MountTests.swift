import Accounts
import Credentials
import Gate
import HTTP
import Testing

@testable import Contracts

/// Where contracts answer.
@Suite struct MountTests {
    static let usual = "password@/api/v1 provider@/whateat/api/v1 apple@/ dlauth@/ anonymous@/"

    private static func table(_ text: String, paths: [String: String] = [:]) throws -> MountTable {
        var table = MountTable()
        table.mounts = try text.split(separator: " ").map { try Mount(parsing: String($0)) }
        for (name, path) in paths { table.paths["dlauth-\(name)"] = path }
        return table
    }

    @Test func theUsualMountsHaveTheEndpointsOfTheDocuments() throws {
        let table = try Self.table(Self.usual)
        #expect(table.clash == nil)
        let answered = table.endpoints.map { "\($0.endpoint.methods.joined(separator: ",")) \($0.path) \($0.endpoint.auth.name)" }
        #expect(
            answered == [
                "POST /api/v1/auth/register none", "POST /api/v1/auth/login none", "POST /api/v1/auth/refresh none",
                "GET,HEAD /api/v1/auth/me required",
                "POST /whateat/api/v1/auth/signin none", "POST /whateat/api/v1/auth/refresh none",
                "POST /whateat/api/v1/auth/signout required",
                "POST /registerUser none", "POST /login none",
                "POST /auth/signup none", "POST /auth/signin none", "POST /auth/signout required", "GET,HEAD /auth/user required",
                "POST /auth/otp/resend optional", "POST /auth/otp/verify optional", "POST /auth/password/forgot none",
                "POST /auth/password/reset none", "PUT /auth/password/update required", "POST /auth/token/refresh none",
                "POST /auth/user none", "POST /auth/email/code optional", "POST /auth/email/verify optional",
                "POST /auth/refresh none", "POST /auth/access-token required",
            ])
        #expect(throws: Never.self) { try RouteTable(table.endpoints.map(\.rule)) }
    }

    @Test(arguments: [
        ("password@/api/v1", "password", "/api/v1"), ("password@/api/v1/", "password", "/api/v1"), ("apple@/", "apple", ""),
        ("dlauth@/a.b-c_d~e/f", "dlauth", "/a.b-c_d~e/f"),
    ])
    func aMountIsAContractAndABase(_ text: String, _ contract: String, _ base: String) throws {
        let mount = try Mount(parsing: text)
        #expect(mount.contract.name == contract && mount.base == base)
        #expect(try Mount(parsing: mount.text) == mount)
    }

    @Test(arguments: [
        ("password", "is no mount"), ("passwords@/", "names no contract"), ("@/", "names no contract"), ("password@", "has no path"),
        ("password@api", "has no path"), ("password@/a//b", "has no path"), ("password@/a/../b", "has no path"),
        ("password@/a b", "has no path"), ("password@/%2e", "has no path"), ("password@/a?b", "has no path"),
        ("password@//", "has no path"),
    ])
    func malformedMountsAreRefusedWithAReason(_ text: String, _ beginning: String) {
        do {
            _ = try Mount(parsing: text)
            Issue.record("\(text) is a mount")
        } catch {
            #expect(error.message.hasPrefix(beginning), "\(text): \(error.message)")
        }
    }

    @Test(arguments: [
        ("password@/api/v1 provider@/api/v1", [:], "password@/api/v1", "provider@/api/v1", "POST /api/v1/auth/refresh"),
        ("dlauth@/ provider@/", [:], "dlauth@/", "provider@/", "POST /auth/signin"),
        ("apple@/ apple@/", [:], "apple@/", "apple@/", "POST /registerUser"),
        ("password@/api/v1 dlauth@/", ["sign-up": "/api/v1/auth/register"], "password@/api/v1", "dlauth@/", "POST /api/v1/auth/register"),
        ("password@/api/v1 dlauth@/", ["user": "/api/v1/auth/me/"], "password@/api/v1", "dlauth@/", "GET /api/v1/auth/me"),
    ])
    func twoMountsOfTheSameRequestClash(
        _ text: String, _ paths: [String: String], _ first: String, _ second: String, _ request: String
    ) throws {
        let clash = try #require(try Self.table(text, paths: paths).clash)
        #expect(clash.first == first && clash.second == second && clash.request == request)
    }

    @Test func aPathThatIsSetReplacesItsDefaultBelowTheBase() throws {
        let table = try Self.table("dlauth@/x", paths: ["sign-up": "/api/v1/auth/register", "user": "/me"])
        let paths = table.endpoints.map(\.path)
        #expect(paths.contains("/x/api/v1/auth/register") && paths.contains("/x/me"))
        #expect(!paths.contains("/x/auth/signup") && !paths.contains("/x/auth/user"))
        #expect(paths.contains("/x/auth/signin"))
    }

    @Test func everyEndpointHasANumberAndANameOfItsOwn() {
        #expect(Set(Catalogue.endpoints.map(\.number)).count == Catalogue.endpoints.count)
        #expect(Set(Catalogue.endpoints.map(\.name)).count == Catalogue.endpoints.count)
        #expect(Catalogue.endpoints.map(\.number).min() == Catalogue.firstNumber)
        #expect(
            ContractID.allCases.flatMap(Catalogue.endpoints(of:)).count + Catalogue.pageEndpoints.count
                + Catalogue.purchaseEndpoints(of: Set(PurchaseSource.allCases)).count + Catalogue.accountEndpoints().count
                == Catalogue.endpoints.count)
        #expect(
            Catalogue.endpoints.allSatisfy {
                $0.name.contains("-")
                    && ($0.path.hasPrefix("/") || ["purchases-list", "account-show", "account-change", "account-delete"].contains($0.name))
                    && !$0.path.hasSuffix("/")
            })
        #expect(ContractID.allCases.allSatisfy { !Catalogue.endpoints(of: $0).isEmpty })
    }

    @Test func purchasesAreMountedWithTheStoresThatAreSetUp() throws {
        var table = try Self.table("password@/buy")
        table.own = [try #require(OwnMount("purchases", base: "/buy/", Catalogue.purchaseEndpoints(of: [.stripe, .revenuecat])))]
        let mounted = table.endpoints.filter { $0.mount == "purchases@/buy" }
        table.own.append(try #require(OwnMount("account", base: "/account", Catalogue.accountEndpoints(passkeys: false))))
        #expect(table.clash == nil)
        table.own.append(table.own[1])
        #expect(table.clash?.request == "GET /account")
        table.own = []
        #expect(
            mounted.map { "\($0.endpoint.methods[0]) \($0.path) \($0.rule.bodyLimit)" } == [
                "GET /buy 65536", "POST /buy/stripe 65536", "POST /buy/notifications/stripe 262144",
                "POST /buy/notifications/revenuecat 262144",
            ])
        #expect(table.clash == nil)
        for (base, isGood) in [("/purchases", true), ("/", false), ("purchases", false), ("/a/../b", false), ("/a b", false)] {
            #expect((OwnMount("purchases", base: base, []) != nil) == isGood, "\(base)")
        }
    }

    // MARK: the account page

    private static let allOfThePage = [
        "web-account", "web-sessions", "web-end-session", "web-sign-out", "web-sign-out-everywhere", "web-page",
    ]

    private static func route(_ words: String) -> RouteRule {
        let parts = words.split(separator: " ").map(String.init)
        let pattern = parts[parts.count - 1]
        let start = pattern.firstIndex(of: "/") ?? pattern.startIndex
        let isPrefix = pattern.hasSuffix("*")
        return RouteRule(
            name: "r", methods: parts.count > 1 ? parts[0].split(separator: ",").map(String.init) : [],
            host: start == pattern.startIndex ? nil : String(pattern[..<start]),
            path: String(isPrefix ? pattern[start...].dropLast() : pattern[start...]), isPrefix: isPrefix, target: .upstream(0))
    }

    @Test func thePageBelongsToTheFirstMountOfItsContract() throws {
        let table = try Self.table("dlauth@/ password@/api/v1 password@/v2")
        #expect(table.pageMount?.text == "password@/api/v1")
        #expect(try table.pages(beside: []).map(\.endpoint.name) == Self.allOfThePage)
        #expect(try Self.table("dlauth@/ apple@/").pages(beside: []).isEmpty)
    }

    @Test(arguments: [
        // Wider or elsewhere: both stand.
        ("/*", allOfThePage), ("/web-shop/*", allOfThePage), ("/web/blog", allOfThePage), ("POST /web/*", allOfThePage),
        ("shop.example.org/web/*", allOfThePage), ("GET /api/v1/*", allOfThePage),
        // In the page's place: without it the rest is of no use.
        ("/web/*", []), ("GET /web/*", []), ("GET,HEAD /web/*", []), ("/web", []), ("/web/", []), ("GET /%77eb//*", []),
        // In the place of one thing that it asks.
        ("GET /web/api/account", allOfThePage.filter { $0 != "web-account" }),
        ("/web/api/account/", allOfThePage.filter { $0 != "web-account" }),
        ("DELETE /web/api/sessions/*", allOfThePage.filter { $0 != "web-end-session" }),
    ])
    func aRouteThatTakesThePlaceOfThePageKeepsIt(_ pattern: String, _ left: [String]) throws {
        let table = try Self.table("password@/api/v1")
        let routes = [Self.route(pattern)] + table.endpoints.map(\.rule)
        let pages = try table.pages(beside: routes)
        #expect(pages.map(\.endpoint.name) == left)
        #expect(throws: Never.self) { try RouteTable(routes + pages.map(\.rule)) }
    }
}
