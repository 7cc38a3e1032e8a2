import Credentials
import Testing
import Wire

@testable import Gate

/// Paths that some servers read as another route's. `Cases/hidden-routes.md` has more of them.
struct HiddenRouteTests {
    /// `/me` requires more than `/*`; a server that cuts parameters off would route each of these to it.
    @Test(arguments: [
        "/me;a=b", "/me;", "/me;a=b/", "/me;a=b/x", "/me%3B/x", "/me%3b/x", "/me%3Ba%3Db", "/;x/me", "/;/me;y", "/%6de;x", "/x/../me;x",
        "//me;x", "/login;x", "/login;x/", "/%3B/login",
    ])
    func parametersHideNoRoute(_ path: String) throws {
        var login = rule("login", "POST /login", auth: .none)
        login.target = .local(1)
        login.isEndpoint = true
        var open = rule("open", "/*", auth: .none)
        open.errors = .apple
        let harness = try AdmissionHarness([open, rule("me", "/me/*"), login])
        let judged = harness.get(path)
        #expect(judged.status == 400 && judged.code == "BAD_REQUEST" && judged.route == "")
        #expect(judged.explanation.step("path")?.contains("parameters") == true)
    }

    @Test func aRouteThatNamesParametersTakesThem() throws {
        let harness = try AdmissionHarness([rule("v", "/a;v=1/*", auth: .none)])
        #expect(harness.get("/a;v=1/b").route == "v")
    }

    @Test func aLetterIsFoldedOnce() {
        let changing = (0x80...0x1FFFF).compactMap(Unicode.Scalar.init).filter {
            CanonicalPath.folded(CanonicalPath.folded($0)) != CanonicalPath.folded($0)
        }
        #expect(changing == [] && CanonicalPath.folded("\u{2C6}") == "\u{2C6}" && CanonicalPath.folded("É") == "é")
    }

    /// Each of the demands that make a route stricter than the open one, alone.
    @Test func aRouteIsStricterByWhatItDemands() throws {
        let tiers = TierList.standard
        func limit(_ text: String) throws -> [LimitPolicy] { [try LimitPolicy(parsing: text, tiers: tiers)] }
        let five = try limit("5/m"), ten = try limit("10/m"), byAddress = try limit("10/m+by=address")
        let filter = try FilterPath(parsing: "tier")
        let claim = ClaimRequirement(name: "a", value: "b")
        typealias Change = (inout RouteRule) -> Void
        let stricter: [(String, Change, Change)] = [
            ("auth", { $0.auth = .required }, { _ in }), ("internal", { $0.auth = .internal }, { $0.auth = .required }),
            (
                "tier",
                {
                    $0.auth = .optional; $0.tier = Tier(rawValue: 1)
                }, { $0.auth = .optional }
            ),
            (
                "max-age",
                {
                    $0.auth = .optional; $0.maxAgeSeconds = 60
                },
                {
                    $0.auth = .optional; $0.maxAgeSeconds = 61
                }
            ),
            (
                "filter",
                {
                    $0.auth = .optional; $0.filters = [filter]
                }, { _ in }
            ),
            (
                "unlabelled",
                {
                    $0.auth = .optional; $0.filters = [filter]; $0.unlabelled = .drop
                },
                {
                    $0.auth = .optional; $0.filters = [filter]
                }
            ),
            (
                "claims",
                {
                    $0.auth = .optional; $0.claims = [claim]
                }, { $0.auth = .optional }
            ), ("limit", { $0.limits = five }, { _ in }),
            ("less", { $0.limits = five }, { $0.limits = ten }), ("other subject", { $0.limits = byAddress }, { $0.limits = ten }),
            ("two", { $0.limits = byAddress + ten }, { $0.limits = ten }),
        ]
        for (name, change, open) in stricter {
            #expect(try Self.alone(change, open).get("/EXPORT", token: AdmissionHarness.token()).status == 400, "\(name)")
        }
        let equal: [(String, Change, Change)] = [
            ("same", { _ in }, { _ in }), ("optional", { $0.auth = .optional }, { _ in }), ("looser", { _ in }, { $0.auth = .required }),
            (
                "observed",
                {
                    $0.auth = .optional; $0.tier = Tier(rawValue: 1); $0.shadow = .tier
                }, { _ in }
            ),
            ("more", { $0.limits = ten }, { $0.limits = five }),
            (
                "observed limit",
                {
                    $0.limits = five; $0.shadow = .limit
                }, { _ in }
            ),
            (
                "claims", { $0.claims = [claim] },
                {
                    $0.auth = .required; $0.claims = [claim]
                }
            ), ("lowest", { $0.tier = .lowest }, { $0.auth = .required }),
        ]
        for (name, change, open) in equal {
            #expect(
                try Self.alone(
                    {
                        $0.auth = .optional; change(&$0)
                    }, open
                ).get("/EXPORT", token: AdmissionHarness.token()).status != 400, "\(name)")
        }
    }

    private static func alone(_ change: (inout RouteRule) -> Void, _ open: (inout RouteRule) -> Void) throws -> AdmissionHarness {
        var all = rule("open", "/*", auth: .none)
        open(&all)
        var export = rule("export", "/export", auth: .none)
        change(&export)
        return try AdmissionHarness([all, export])
    }

    /// An endpoint of the gateway's own is served by no upstream, and an open rule for one spelling does not open the others.
    @Test func laxerRulesHideNoStricterOneEither() throws {
        var login = rule("login", "POST /api/v1/login", auth: .none), ask = rule("ask", "/oauth/introspect", auth: .internal)
        login.target = .local(1)
        ask.target = .local(2)
        let harness = try AdmissionHarness([
            rule("open", "/*", auth: .none), rule("api", "/api/*"), login, ask, rule("landing", "/premium", auth: .none),
            rule("premium", "/premium/*"),
            rule("news", "/premium/news/", auth: .none),
        ])
        for path in ["/API/v1/login", "/PREMIUM/", "/PREMIUM/news"] { #expect(harness.get(path).status == 400, "\(path)") }
        #expect(harness.ask("POST /API/v1/login HTTP/1.1\nHost: a").status == 400)
        for path in ["/OAUTH/introspect", "/PREMIUM"] { #expect(harness.get(path).route == "open", "\(path)") }
    }

    /// Of rules whose folded paths are the same, the strictest counts.
    @Test func theStrictestOfTwoSpellingsCounts() throws {
        for reversed in [false, true] {
            let pair = [rule("one", "/Export", auth: .none), rule("two", "/eXport")]
            let harness = try AdmissionHarness([rule("open", "/*", auth: .none)] + (reversed ? pair.reversed() : pair))
            #expect(harness.get("/export").status == 400 && harness.get("/Export").status == 400 && harness.get("/x").route == "open")
        }
        let pairs = FoldedRoutes.pairs(of: [
            rule("open", "/*", auth: .none), rule("me", "/Me/*"), rule("exact", "POST /a/{b}"), rule("free", "/c", auth: .none),
        ])
        #expect(pairs.map(\.rule.name) == ["open"] && pairs.first?.stricter.map(\.name) == ["me", "exact"])
        let below = FoldedRoutes.pairs(of: [rule("api", "/api/*", auth: .none), rule("admin", "/api/admin/*")])
        #expect(below.map(\.rule.name) == ["api"])
    }

    /// A path that needs folding differs from its folded form, and a folded one needs none.
    @Test func foldingIsFoundAndIdempotent() {
        let pieces = ["/", "a", "Z", "%20", "+", "%C3%A9", "%E2%84%AA", "abcdefgh", "@", "[", "~", "{"]
        var random = SplitMix64(seed: 7)
        for _ in 0..<20_000 {
            var path = Array("/".utf8)
            for _ in 0..<Int(random.next() % 9) { path += Array(pieces[Int(random.next() % UInt64(pieces.count))].utf8) }
            var folded = ByteBuffer(), again = ByteBuffer()
            CanonicalPath.appendFolded(path.rawBytes, to: &folded)
            CanonicalPath.appendFolded(folded.readable, to: &again)
            let isRight =
                again.readable.equals(folded.readable) && (folded.readable.array == path || CanonicalPath.needsFolding(path.rawBytes))
            if !isRight { Issue.record("\(path.rawBytes.text) is folded to \(folded.readable.text)") }
        }
    }
}
