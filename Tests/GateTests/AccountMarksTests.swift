import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

/// Bans, closed accounts, attributes and merges, as workers learn them with the tier.
@Suite struct AccountMarksTests {
    private static let ada = UUID(high: 0x0193_a1b2_0000_7000, low: 0x8000_0000_0000_0001)
    private static let guests = [UUID(high: 1, low: 1), UUID(high: 2, low: 2)]

    private static func route(_ name: String, _ change: (inout RouteRule) -> Void = { _ in }) -> RouteRule {
        var made = rule(name, "/\(name)/*")
        change(&made)
        return made
    }

    private static func names(_ texts: String...) -> [AttributeName] { texts.compactMap { AttributeName($0) } }

    private static let rules = [
        route("plain"),
        route("editor") { $0.attributes = [AttributeRequirement(name: "role", values: ["editor", "admin"])] },
        route("both") {
            $0.attributes = [AttributeRequirement(name: "role", values: ["admin"]), AttributeRequirement(name: "level", values: ["3"])]
        },
        route("optional") {
            $0.auth = .optional
            $0.attributes = [AttributeRequirement(name: "role", values: ["editor", "admin"])]
        },
        route("told") { $0.forwardedAttributes = names("role", "avatar_url", "tags") },
        route("merge") { $0.announcesMerges = true },
        route("split") {
            $0.split = RouteSplit(percent: 100, upstreamName: "next")
            $0.split?.upstream = 7
            let beta = AttributeRequirement(name: "beta", values: ["true"])
            $0.splitWhen = [SplitCondition(fact: .attribute(beta), text: "attribute:beta=true")]
        },
    ]

    private static func policy(
        _ rules: [RouteRule] = rules, hasAccounts: Bool = true, tierFrom: TierSource = .claim, signer: IdentitySigner? = nil
    ) throws -> Policy {
        var own = AdmissionHarness.trusted()
        own.isOwn = true
        var old = AdmissionHarness.trusted(AdmissionHarness.otherKey, name: "old", issuer: "https://old.test")
        old.hasAccounts = true
        return try Policy(
            rules: rules, trust: AdmissionHarness.trust([own, old]), hasAccounts: hasAccounts, tierSources: ["old": tierFrom],
            identitySigner: signer)
    }

    private static func marks(_ json: String = "", bar: AccountMarks.Bar? = nil, merges: [AnnouncedMerge] = []) -> AccountMarks {
        AccountMarks(bar: bar, attributes: Array(json.utf8), merges: merges)
    }

    private static func learn(
        _ harness: AdmissionHarness, _ marks: AccountMarks, version: Int64 = 1, _ source: UserTier.Source = .lookedUp
    ) {
        harness.admission.learn([
            UserTier(
                user: TokenUser(ada.text), status: .tier(.lowest, until: .max), version: version, source: source,
                learnedAt: harness.now.wall.seconds, marks: marks)
        ])
    }

    private static let token = AdmissionHarness.token(ada.text)
    private static let outside = AdmissionHarness.token("42", issuer: "https://old.test", key: AdmissionHarness.otherKey)

    // MARK: splits

    /// A user without the attribute is not refused.
    @Test func aSplitMayAskForAnAttribute() throws {
        let harness = AdmissionHarness(try Self.policy())
        #expect(harness.get("/split/x", token: Self.token).verdict == .lookUp)
        Self.learn(harness, Self.marks())
        #expect(harness.get("/split/x", token: Self.token).verdict == .forward(upstream: 0))
        Self.learn(harness, Self.marks(#"{"beta":true}"#), version: 2, .pushed)
        #expect(harness.get("/split/x", token: Self.token).verdict == .forward(upstream: 7))
        Self.learn(harness, Self.marks(#"{"beta":false}"#), version: 3, .pushed)
        #expect(harness.get("/split/x", token: Self.token).verdict == .forward(upstream: 0))
    }

    // MARK: bans

    /// The database was restored from an older backup. Minted tokens need no account, and one that was opened after the look-up is not known.
    @Test func aContractsTokenWithoutItsAccountIsRefused() throws {
        for (contract, learned, status) in [(nil, 0, 0), (.dlauth, 0, 401), (.dlauth, -61, 0), (.dlauth, -60, 0)]
            as [(ContractID?, Int64, UInt16)]
        {
            let harness = AdmissionHarness(try Self.policy())
            let learnedAt = harness.now.wall.seconds + learned
            harness.admission.learn([UserTier(user: TokenUser(Self.ada.text), status: .noAccount, version: -1, learnedAt: learnedAt)])
            let judged = harness.get("/plain/x", token: AdmissionHarness.token(Self.ada.text) { $0.contract = contract })
            #expect(judged.status == status && (status == 0 || judged.reason == .closed), "\(String(describing: contract)) \(learned)")
        }
    }

    /// Also where no session names the token. The end of a ban needs no news.
    @Test func tokensOfABannedOrClosedAccountAreRefused() throws {
        let harness = AdmissionHarness(try Self.policy())
        Self.learn(harness, Self.marks())
        #expect(harness.get("/plain/x", token: Self.token).status == 0)
        let end = WallTime(seconds: harness.now.wall.seconds + 10)
        Self.learn(harness, Self.marks(bar: .banned(until: end)), version: 2, .pushed)
        let banned = harness.get("/plain/x", token: Self.token)
        #expect(banned.code == "TOKEN_REVOKED" && banned.reason == .banned && banned.auth == .refused && banned.identity.isEmpty)
        #expect(banned.explanation.step("standing") == "the account is banned")
        harness.advance(milliseconds: 9_999)
        #expect(harness.get("/plain/x", token: Self.token).code == "TOKEN_REVOKED")
        harness.advance(milliseconds: 1)
        #expect(harness.get("/plain/x", token: Self.token).status == 0)
        Self.learn(harness, Self.marks(bar: .banned(until: nil)), version: 3, .pushed)
        harness.advance(milliseconds: 1_000_000)
        #expect(harness.get("/plain/x", token: Self.token).reason == .banned)
        Self.learn(harness, Self.marks(bar: .closed), version: 4, .pushed)
        #expect(harness.get("/plain/x", token: Self.token).reason == .closed)
    }

    @Test func anOutsideTokenWhoseTierIsTheAccountsIsRefusedToo() throws {
        let harness = AdmissionHarness(try Self.policy(tierFrom: .account))
        harness.admission.learn([
            KnownSubject(user: TokenUser("42", of: "old"), status: .account(Self.ada), learnedAt: harness.now.wall.seconds)
        ])
        Self.learn(harness, Self.marks(bar: .banned(until: nil)))
        #expect(harness.get("/plain/x", token: Self.outside).code == "TOKEN_REVOKED")
    }

    @Test func streamsOfABannedAccountEnd() throws {
        let harness = AdmissionHarness(try Self.policy())
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#))
        #expect(harness.get("/editor/x", token: Self.token).status == 0)
        let life = try #require(harness.streamLife)
        func state() -> StreamLife.State { harness.admission.state(of: life, at: harness.now.wall) }
        #expect(state() == .live)
        Self.learn(harness, Self.marks(#"{"role":"reader"}"#), version: 2, .pushed)
        #expect(state() == .over(.tierLost))
        Self.learn(harness, Self.marks(#"{"role":"admin"}"#), version: 3, .pushed)
        #expect(state() == .live)
        Self.learn(harness, Self.marks(#"{"role":"admin"}"#, bar: .banned(until: nil)), version: 4, .pushed)
        #expect(state() == .over(.sessionEnded))
        harness.admission.forgetUsers()
        #expect(state() == .lacksAccount)
    }

    // MARK: attributes

    @Test(arguments: [
        ("editor", #"{"role":"editor"}"#, true), ("editor", #"{"role":"admin","x":1}"#, true), ("editor", #"{"role":"reader"}"#, false),
        ("editor", #"{"role":["reader","admin"]}"#, true), ("editor", #"{"role":[["admin"],{"admin":"admin"}]}"#, false),
        ("editor", #"{"role":{"admin":"admin"}}"#, false), ("editor", #"{"Role":"editor"}"#, false), ("editor", "", false),
        ("editor", #"{"role":"\u0065ditor"}"#, true), ("editor", #"{"r\u006fle":"editor"}"#, true),
        ("editor", #"{"x":{"role":"editor"}}"#, false), ("editor", #"{"role":"editor","role":"reader"}"#, false),
        ("both", #"{"role":"admin","level":3}"#, true), ("both", #"{"role":"admin","level":"3"}"#, true),
        ("editor", #"{"role":"editor""#, false), ("editor", #"{"role":"editor","x":}"#, false), ("both", #"{"role":"admin"}"#, false),
        ("both", #"{"level":3}"#, false), ("optional", #"{"role":"admin"}"#, true),
    ])
    func aRouteRequiresAttributes(_ route: String, _ json: String, _ passes: Bool) throws {
        let harness = AdmissionHarness(try Self.policy())
        #expect(harness.get("/\(route)/x", token: Self.token).verdict == .lookUp)
        Self.learn(harness, Self.marks(json))
        let judged = harness.get("/\(route)/x", token: Self.token)
        #expect(judged.code == (passes ? "" : "FORBIDDEN") && judged.reason == (passes ? .none : .attributes))
        let why = try #require(judged.explanation.step("attributes"))
        #expect(why.hasPrefix("role=") && why.hasSuffix(passes ? "is needed and held" : "is needed, and the account does not have it"))
    }

    @Test func othersAreRefusedAsTheyDeserve() throws {
        let harness = AdmissionHarness(try Self.policy())
        #expect(harness.get("/optional/x").code == "UNAUTHORIZED" && harness.get("/merge/x").code == "UNAUTHORIZED")
        // A token that names no account, and one of an outside issuer without one.
        #expect(harness.get("/editor/x", token: AdmissionHarness.token("service")).reason == .attributes)
        harness.admission.learn([KnownSubject(user: TokenUser("42", of: "old"), status: .unknown, learnedAt: harness.now.wall.seconds)])
        #expect(harness.get("/editor/x", token: Self.outside).reason == .attributes)
        #expect(harness.get("/told/x", token: Self.outside).status == 0)
        // An account that cannot be looked up is not guessed.
        let until = harness.now.wall.seconds + 1
        harness.admission.learn([UserTier(user: TokenUser(Self.ada.text), status: .unavailable(until: until), version: -1)])
        for path in ["/editor/x", "/told/x"] { #expect(harness.get(path, token: Self.token).status == 503) }
        for path in ["/plain/x", "/merge/x"] { #expect(harness.get(path, token: Self.token).status == 0) }
    }

    /// Their tier may come from elsewhere.
    @Test(arguments: [TierSource.claim, .account, .lookup]) func outsideTokensHaveTheAttributesOfTheirAccount(_ source: TierSource) throws {
        let harness = AdmissionHarness(try Self.policy(tierFrom: source))
        harness.admission.learn([
            KnownSubject(user: TokenUser("42", of: "old"), status: .account(Self.ada), learnedAt: harness.now.wall.seconds)
        ])
        harness.admission.learn([UserTier(user: TokenUser("42", of: "old"), status: .tier(.lowest, until: .max), version: 1)])
        #expect(harness.get("/editor/x", token: Self.outside).verdict == .lookUp)
        #expect(harness.user == TokenUser(Self.ada.text))
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#))
        #expect(harness.get("/editor/x", token: Self.outside).status == 0)
    }

    @Test func attributesAreForwardedInTheOrderOfTheRoutes() throws {
        let harness = AdmissionHarness(try Self.policy())
        Self.learn(harness, Self.marks(#"{"tags":["a b",1],"role":"Zoë\r\nX: y","x":1,"avatar_url":true}"#))
        let told = harness.get("/told/x", token: Self.token, "X-User-Attribute-Role: admin").identity
        #expect(
            told.suffix(3) == [
                "X-User-Attribute-Role: Zo%C3%AB%0D%0AX%3A%20y", "X-User-Attribute-Avatar-Url: true",
                "X-User-Attribute-Tags: %5B%22a%20b%22%2C1%5D",
            ])
        #expect(!harness.get("/plain/x", token: Self.token).identity.contains { $0.hasPrefix("X-User-Attribute") })
        Self.learn(harness, Self.marks(#"{"role":""}"#), version: 2, .pushed)
        #expect(harness.get("/told/x", token: Self.token).identity.last == "X-User-Attribute-Role: ")
        Self.learn(harness, Self.marks(), version: 3, .pushed)
        #expect(!harness.get("/told/x", token: Self.token).identity.contains { $0.hasPrefix("X-User-Attribute") })
    }

    @Test func anOlderAnswerChangesNothing() throws {
        let harness = AdmissionHarness(try Self.policy())
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#), version: 2, .pushed)
        Self.learn(harness, Self.marks(#"{"role":"reader"}"#), version: 1)
        #expect(harness.get("/editor/x", token: Self.token).status == 0)
    }

    /// Details that had to give way are asked for again, and the answer of the same version counts.
    @Test func detailsAreBoundedInBytes() throws {
        let harness = AdmissionHarness(try Self.policy())
        harness.admission.accountDetails = AccountDetails(bytes: 8_192)
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#), version: 2, .pushed)
        for number in 0..<100 {
            harness.admission.learn([
                UserTier(
                    user: TokenUser(UUID(high: 9, low: UInt64(number)).text), status: .tier(.lowest, until: .max), version: 1,
                    marks: Self.marks(#"{"role":"\#(String(repeating: "x", count: 1_000))"}"#))
            ])
            #expect(harness.admission.accountDetails.count <= 8)
        }
        #expect(harness.get("/editor/x", token: Self.token).verdict == .lookUp)
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#), version: 2)
        #expect(harness.get("/editor/x", token: Self.token).status == 0)
    }

    @Test func aReloadWithOtherAttributesLooksThemUpAgain() throws {
        let harness = AdmissionHarness(try Self.policy())
        Self.learn(harness, Self.marks(#"{"role":"editor","plan":"a"}"#))
        harness.admission.adopt(try Self.policy())
        #expect(harness.get("/editor/x", token: Self.token).status == 0)
        let life = harness.streamLife
        let plan = AttributeRequirement(name: "plan", values: ["a"])
        let former = harness.admission.policy
        let next = try Self.policy([Self.route("plan") { $0.attributes = [plan] }] + Self.rules)
        harness.admission.adopt(next)
        #expect(harness.get("/plan/x", token: Self.token).verdict == .lookUp)
        Self.learn(harness, Self.marks(#"{"role":"editor"}"#))
        #expect(harness.get("/plan/x", token: Self.token).reason == .attributes && harness.get("/editor/x", token: Self.token).status == 0)
        // An open stream still needs what it needed.
        var moved = try #require(life)
        moved.adopt(next, insteadOf: former)
        #expect(harness.admission.state(of: moved, at: harness.now.wall) == .live)
        Self.learn(harness, Self.marks(#"{"plan":"a"}"#), version: 2, .pushed)
        #expect(harness.admission.state(of: moved, at: harness.now.wall) == .over(.tierLost))
    }

    @Test func noMoreThanFitAreTaken() throws {
        let many = (0..<65).map { number in
            Self.route("r\(number)") { $0.attributes = [AttributeRequirement(name: "n\(number)", values: ["1"])] }
        }
        #expect(throws: RouteFault.tooManyAttributes("r64")) { try Self.policy(many) }
        for change in [
            { $0.attributes = [AttributeRequirement(name: "a", values: ["b"])] }, { $0.forwardedAttributes = Self.names("a") },
            { $0.announcesMerges = true },
        ] as [(inout RouteRule) -> Void] {
            var open = Self.route("open", change)
            open.auth = .none
            #expect(throws: RouteFault.identityNeeded("open")) { try Self.policy([open]) }
        }
    }

    // MARK: merges

    @Test func mergesAreAnnouncedUntilTheyAreConfirmedOrOver() throws {
        let harness = AdmissionHarness(try Self.policy())
        let now = harness.now.wall.seconds
        let merges = [AnnouncedMerge(from: Self.guests[0], until: now + 10), AnnouncedMerge(from: Self.guests[1], until: now + 20)]
        Self.learn(harness, Self.marks(merges: merges))
        func announced(_ path: String = "/merge/x") -> String? {
            harness.get(path, token: Self.token, "X-User-Merged-From: \(Self.ada)").identity.first { $0.hasPrefix("X-User-Merged") }
        }
        #expect(announced() == "X-User-Merged-From: \(Self.guests[0]), \(Self.guests[1])")
        #expect(announced("/plain/x") == nil)
        harness.advance(milliseconds: 10_000)
        #expect(announced() == "X-User-Merged-From: \(Self.guests[1])")
        let key = try #require(harness.announced)
        #expect(harness.admission.account(key, with: Self.guests[1]) == Self.ada)
        #expect(harness.admission.account(key, with: UUID(high: 3, low: 3)) == nil)
        Self.learn(harness, Self.marks(), version: 2, .pushed)
        #expect(announced() == nil && harness.announced == nil)
        let all = (0..<20).map { AnnouncedMerge(from: UUID(high: 7, low: UInt64($0)), until: .max) }
        Self.learn(harness, Self.marks(merges: all), version: 3, .pushed)
        #expect(announced()?.split(separator: ",").count == AccountDetail.maxAnnounced)
    }

    // MARK: the signed identity

    @Test func theSignedIdentitySaysTheSame() throws {
        let signed = [
            Self.route("signed") {
                ($0.signsIdentity, $0.announcesMerges) = (true, true)
                $0.forwardedAttributes = Self.names("role", "plan", "level")
            }
        ]
        let signer = IdentitySigner(key: try SigningKey.generate(.ES256), issuer: "i", publicURL: "https://gate.test")
        let harness = AdmissionHarness(try Self.policy(signed, signer: signer))
        func claims() throws -> String {
            let line = harness.get("/signed/x", token: Self.token).identity.last { $0.hasPrefix("X-Tollgate-Identity: ") }
            let part = try #require(line?.split(separator: ".").dropFirst().first)
            return String(decoding: try #require(String(part).withRawBytes { Base64URL.decode($0) }), as: UTF8.self)
        }
        Self.learn(harness, Self.marks(#"{"level":3,"role":["a","b"],"x":1}"#))
        #expect(try claims().hasSuffix(#","attributes":{"role":["a","b"],"level":3}}"#))
        let merges = Self.guests.map { AnnouncedMerge(from: $0, until: harness.now.wall.seconds + 5) }
        Self.learn(harness, Self.marks(#"{"role":"c"}"#, merges: merges), version: 2, .pushed)
        let list = #","merged_from":["\#(Self.guests[0])","\#(Self.guests[1])"],"attributes":{"role":"c"}}"#
        #expect(try claims().hasSuffix(list))
        // A merge that is over is not in the next one, though the last is young.
        harness.advance(milliseconds: 5_000)
        #expect(try !claims().contains("merged_from"))
        Self.learn(harness, Self.marks(), version: 3, .pushed)
        #expect(try !claims().contains("attributes"))
    }
}
