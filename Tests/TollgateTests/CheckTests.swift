import Credentials
import Gate
import Testing
import Wire
import Workbench

@testable import Admin
@testable import Settings
@testable import tollgate

/// `tollgate check` shows all that a line with options sets, in its text and in its JSON.
@Suite struct CheckTests {
    /// Every option at a value that is not its default, and its member in JSON. The empty text parts options that do not go together.
    static let route: [(option: String, json: String)] = [
        ("upstream=u", #""upstream":"u""#), ("auth=optional", #""auth":"optional""#), ("tier=premium", #""tier":"premium""#),
        ("limit=5/m", #""limit":"5/m""#), ("limit-by=address", #""limit_by":"address""#), ("claims=a=b,c=d", #""claims":["a=b","c=d"]"#),
        ("scope=feed:read,b", #""scope":["feed:read","b"]"#),
        ("attributes=role=a|b,c=d", #""attributes":["role=a|b","c=d"]"#),
        ("forward-attributes=role,avatar_url", #""forward_attributes":["role","avatar_url"]"#), ("merge=announce", #""merge":"announce""#),
        ("max-age=5m", #""max_age":"5m""#), ("factor=10m", #""factor":"10m""#), ("proof=required", #""proof":"required""#),
        ("identity=signed", #""identity":"signed""#),
        ("forward=authorization,email,name", #""forward":["authorization","email","name"]"#),
        ("keep=X-Original-URL", #""keep":["X-Original-URL"]"#),
        ("split=5%:v", #""split":"5%:v""#), ("split-by=session", #""split_by":"session""#),
        ("when=tier:premium,header:X-Channel=beta", #""when":["tier:premium","header:X-Channel=beta"]"#),
        ("mirror=v:20%", #""mirror":"v:20%""#),
        ("split-guard=3x", #""split_guard":"3x""#),
        ("request-set=X-A:{user}%20b", #""request_set":["X-A:{user}%20b"]"#),
        ("request-remove=X-B,X-C", #""request_remove":["X-B","X-C"]"#),
        ("response-set=X-D:1,X-E:2", #""response_set":["X-D:1","X-E:2"]"#), ("response-remove=Server", #""response_remove":["Server"]"#),
        ("strip=/a", #""strip":"/a""#), ("timeout=5s", #""timeout":"5s""#), ("body-limit=64MiB", #""body_limit":67108864"#),
        ("allow-from=10.0.0.0/8,::1", #""allow_from":["10.0.0.0/8","::1/128"]"#), ("deny-from=10.9.9.9", #""deny_from":["10.9.9.9/32"]"#),
        ("retries=2", #""retries":2"#), ("errors=problem", #""errors":"problem""#), ("encoded-slash=pass", #""encoded_slash":"pass""#),
        ("filter=tier", #""filter":["tier"]"#), ("filter-strict=off", #""filter_strict":false"#),
        ("filter-unlabelled=premium", #""filter_unlabelled":"premium""#),
        ("compress=on", #""compress":"on""#), ("compress-min=2KiB", #""compress_min":2048"#),
        ("compress-events=on", #""compress_events":true"#),
        ("shadow=limit,tier,filter", #""shadow":["limit","tier","filter"]"#),
        ("stream-expiry=close", #""stream_expiry":"close""#), ("stream-warning=90s", #""stream_warning":"90s""#),
        ("sse-heartbeat=15s", #""sse_heartbeat":"15s""#), ("cors=https://a.test", #""cors":{"origins":"https://a.test""#),
        ("cors-credentials=on", #""credentials":true"#), ("cors-headers=X-A", #""headers":["X-A"]"#),
        ("cors-expose=X-B", #""expose":["X-B"]"#), ("cors-max-age=1h", #""max_age_s":3600"#),
        ("attest=a", #""attest":"a""#), ("app=required", #""app":"required""#), ("sunset=2027-03-01", #""sunset":"2027-03-01""#),
        ("deprecated=2026-12-01", #""deprecated":"2026-12-01""#),
        ("sunset-link=https://a.test/end", #""sunset_link":"https://a.test/end""#),
        ("", ""), ("websocket=on", #""websocket":true"#), ("websocket-max=7", #""websocket_max":7"#),
        ("", ""), ("cache=90s", #""cache":"90s""#), ("cache-by=tier", #""cache_by":"tier""#), ("cache-stale=45s", #""cache_stale":"45s""#),
        ("cache-on-error=2m", #""cache_on_error":"2m""#), ("cache-vary=x-a,cookie", #""cache_vary":["x-a","cookie"]"#),
    ]

    static let upstream: [(option: String, json: String)] = [
        ("balance=round", #""balance":"round""#), ("health=/up", #""health":"/up""#), ("timeout=5s", #""timeout_ms":5000"#),
        ("connect-timeout=3s", #""connect_timeout_ms":3000"#), ("retries=3", #""retries":3"#),
        ("max-connections=11", #""max_connections":11"#),
        ("http2=on", #""http2":true"#), ("host=upstream", #""host":"upstream""#), ("paths=exact", #""paths_exact":true"#),
        ("tls-ca=ca.pem", #""tls_ca":"ca.pem""#), ("tls-cert=c.pem", #""tls_cert":"c.pem""#), ("tls-key=k.pem", #""tls_key":"k.pem""#),
        ("tls-name=a.test", #""tls_name":"a.test""#), ("eject-failures=off", #""eject_failures":null"#),
        ("eject-after=20s", #""eject_after":"20s""#),
        ("eject-max=30%", #""eject_max":"30%""#), ("eject-success=90%", #""eject_success":"90%""#),
        ("eject-latency=3x", #""eject_latency":"3x""#),
        ("panic=40%", #""panic":"40%""#), ("slow-start=10s", #""slow_start":"10s""#), ("max-requests=12", #""max_requests":12"#),
        ("max-pending=13", #""max_pending":13"#), ("retry-budget=25%", #""retry_budget":"25%""#), ("retry-min=4", #""retry_min":4"#),
    ]

    static let trust: [(option: String, json: String)] = [
        ("issuer=https://i.test", #""issuer":"https://i.test""#), ("audience=a,b", #""audiences":["a","b"]"#),
        ("jwks=https://i.test/keys", #""jwks":"https://i.test/keys""#), ("algorithms=RS256", #""algorithms":["RS256"]"#),
        ("user-claim=uid", #""user_claim":"uid""#), ("tier-from=lookup", #""tier_from":"lookup""#),
        ("tier-url=https://t.test/tier", #""tier_url":"https://t.test/tier""#), ("tier-max-age=2m", #""tier_max_age":"2m""#),
        ("email-claim=mail", #""email_claim":"mail""#), ("max-lifetime=7d", #""max_lifetime":"7d""#),
        ("refresh=https://i.test/refresh", #""refresh":"https://i.test/refresh""#),
        ("refresh-contract=dlauth", #""refresh_contract":"dlauth""#),
        ("accounts=on", #""accounts":true"#),
        ("", ""), ("audience=c", #""audiences":["c"]"#), ("secret-file=s", #""secret_file":"s""#),
        ("tier-claim=plan", #""tier_claim":"plan""#),
    ]

    static let internalCaller: [(option: String, json: String)] = [
        ("key-sha256=" + String(repeating: "ab", count: 32), #""key_sha256":"abababab…""#),
        ("cidr=10.0.0.0/8,fd00::/8", #""cidr":["10.0.0.0/8","fd00::/8"]"#),
        ("cert-san=spiffe://i.test/a", #""cert_san":"spiffe://i.test/a""#),
    ]

    static let resource: [(option: String, json: String)] = [
        ("path=/a", #""path":"/a""#), ("scopes=m:r,m:w", #""scopes":["m:r","m:w"]"#), ("issuers=l0", #""issuers":["l0"]"#),
    ]

    static let provider: [(option: String, json: String)] = [
        ("client-ids=p.app,p.web", #""client_ids":["p.app","p.web"]"#), ("issuer=https://p.test", #""issuer":["https://p.test"]"#),
        ("jwks=https://p.test/keys", #""jwks":"https://p.test/keys""#), ("email=trusted", #""email":"trusted""#),
        ("nonce=required", #""nonce":"required""#),
    ]

    /// The token and its file are not shown.
    static let adminToken: [(option: String, json: String)] = [
        ("token-file=t", ""), ("scope=users:read,tier", #""scope":["users:read","tier"]"#),
    ]

    static let product: [(option: String, json: String)] = [
        ("tier=premium", #""tier":"premium""#), ("apple=a1,a2", #""apple":["a1","a2"]"#), ("google=g1", #""google":["g1"]"#),
        ("stripe=price_1", #""stripe":["price_1"]"#), ("revenuecat=r1", #""revenuecat":["r1"]"#), ("grace=16d", #""grace":"16d""#),
    ]

    static let apple: [(option: String, json: String)] = [
        ("bundle-ids=b.one,b.two", #""bundle_ids":["b.one","b.two"]"#),
        ("environments=production,sandbox", #""environments":["production","sandbox"]"#), ("app-apple-id=4711", #""app_apple_id":4711"#),
        ("roots=s", #""roots":"s""#), ("api-key-file=t", #""api_key_file":"t""#), ("key-id=K1", #""key_id":"K1""#),
        ("issuer-id=I1", #""issuer_id":"I1""#), ("api-url=https://apple.test", #""api_url":"https://apple.test""#),
    ]

    static let google: [(option: String, json: String)] = [
        ("packages=p.one,p.two", #""packages":["p.one","p.two"]"#), ("environments=sandbox", #""environments":["sandbox"]"#),
        ("service-account=s", #""service_account":"s""#),
        ("audience=https://aud.test", #""audience":"https://aud.test""#), ("push-email=push@p.test", #""push_email":"push@p.test""#),
        ("jwks=https://keys.test", #""jwks":"https://keys.test""#), ("token-url=https://token.test", #""token_url":"https://token.test""#),
        ("api-url=https://google.test", #""api_url":"https://google.test""#),
    ]

    static let stripe: [(option: String, json: String)] = [
        ("secret-file=w,v", #""secret_file":["w","v"]"#), ("api-key-file=t", #""api_key_file":"t""#),
        ("api-url=https://stripe.test", #""api_url":"https://stripe.test""#), ("environments=sandbox", #""environments":["sandbox"]"#),
    ]

    static let revenueCat: [(option: String, json: String)] = [
        ("authorization-file=t", #""authorization_file":"t""#), ("environments=sandbox", #""environments":["sandbox"]"#),
    ]

    static let versionGate: [(option: String, json: String)] = [
        ("header=X-Version", #""header":"X-Version""#), ("min=4.2", #""min":"4.2""#), ("warn=4.5.1", #""warn":"4.5.1""#),
        ("url=https://a.test/update", #""url":"https://a.test/update""#), ("platform=X-Platform:ios", #""platform":"X-Platform:ios""#),
    ]

    static let attestation: [(option: String, json: String)] = [
        ("header=X-App-Check", #""header":"X-App-Check""#), ("issuer=https://a.test/1", #""issuer":"https://a.test/1""#),
        ("audience=projects/1", #""audience":["projects/1"]"#), ("jwks=https://a.test/keys", #""jwks":"https://a.test/keys""#),
        ("once=on", #""once":true"#),
    ]

    /// A line of each of these with all of its options.
    static var otherLines: String {
        [
            ("INTERNAL_I", internalCaller), ("VERSION_GATE_G", versionGate), ("ATTEST_A", attestation), ("PROVIDER_P", provider),
            ("ADMIN_TOKEN_T", adminToken),
            ("PRODUCT_P", product),
            ("PURCHASES_APPLE", apple), ("PURCHASES_GOOGLE", google), ("PURCHASES_STRIPE", stripe), ("PURCHASES_REVENUECAT", revenueCat),
        ].map { name, samples in
            "TOLLGATE_\(name)=\"\(samples.map(\.option).joined(separator: " "))\"\n"
        }.joined() + "TOLLGATE_TLS_CLIENT_CA=ca.pem\n"
    }

    /// Files that the samples name.
    static let files = [
        "s": sharedSecret, "t": Array("a-token-of-sixteen-or-more".utf8), "v": Array("whsec_v".utf8), "w": Array("whsec_w".utf8),
    ]

    /// The lines of a family that have all of its options.
    private func lines(_ family: String, _ beginning: String, _ samples: [(option: String, json: String)]) -> String {
        samples.map(\.option).split(separator: "").enumerated().map { number, options in
            "TOLLGATE_\(family)_L\(number)=\"\(beginning) \(options.joined(separator: " "))\"\n"
        }.joined()
    }

    private func keys(_ samples: [(option: String, json: String)]) -> Set<String> {
        Set(samples.map { String($0.option.prefix { $0 != "=" }) }).subtracting([""])
    }

    /// Options of routes, upstreams and issuers whose value has a column; that of `limit` has `limit-by`, too.
    static let columns: Set<String> = [
        "upstream", "auth", "tier", "limit", "limit-by", "balance", "health", "http2", "issuer", "audience", "jwks", "secret-file",
        "algorithms",
        "tier-from",
    ]

    /// The first options of a table that go together.
    private func first(_ samples: [(option: String, json: String)]) -> String {
        samples.map(\.option).split(separator: "")[0].joined(separator: " ")
    }

    /// Printing alone would not show two rows that set the same.
    @Test func everyOptionSetsItsField() throws {
        let text =
            "TOLLGATE_UPSTREAM_U=\"https://h \(first(Self.upstream))\"\nTOLLGATE_ROUTE_A=\"/a \(first(Self.route))\"\n"
            + "TOLLGATE_UPSTREAM_V=http://v\nTOLLGATE_ROUTE_B=\"/b upstream=v websocket=on websocket-max=7 forward=email shadow=tier\"\n"
            + "TOLLGATE_ROUTE_C=\"/c upstream=v forward=name shadow=limit cache=90s cache-stale=45s cache-on-error=2m cache-vary=X-A\"\nTOLLGATE_TRUST_T=\"\(first(Self.trust))\"\n"
        let settings = load(text + Self.otherLines, files: Self.files).partial.settings
        let (whole, second, third) = (settings.routes[0].rule, settings.routes[1].rule, settings.routes[2].rule)
        #expect(
            whole.auth == .optional && whole.tier == Tier(rawValue: 1) && whole.limits.map(\.text) == ["5/m"] && whole.limitBy == .address)
        #expect(
            whole.claims == [ClaimRequirement(name: "a", value: "b"), ClaimRequirement(name: "c", value: "d")] && whole.maxAgeSeconds == 300
        )
        #expect(
            whole.attributes.map(\.values) == [["a", "b"], ["d"]] && whole.attributes.map(\.name) == ["role", "c"] && whole.announcesMerges)
        #expect(whole.forwardedAttributes.map(\.field) == ["X-User-Attribute-Role", "X-User-Attribute-Avatar-Url"])
        #expect(
            whole.factorSeconds == 600 && whole.signsIdentity && whole.forwardsAuthorization && whole.forwardsEmail && whole.forwardsName)
        #expect(
            whole.keptFields.text == "X-Original-URL" && whole.strip == "/a" && whole.timeoutMilliseconds == 5_000 && whole.retries == 2)
        #expect(whole.bodyLimit == 64 << 20 && whole.errors == .problem && whole.encodedSlashPasses && !whole.takesWebSockets)
        #expect(whole.filters.map(\.text) == ["tier"] && !whole.filterIsStrict && whole.unlabelled == .tier(Tier(rawValue: 1)))
        #expect(whole.app == .required && whole.sunsetLink == "https://a.test/end")
        #expect(whole.sunset == WallTime(seconds: 1_803_859_200) && whole.deprecated == WallTime(seconds: 1_796_083_200))
        #expect(whole.shadow == [.limit, .tier, .filter] && whole.streams.expiry == .close)
        #expect(whole.streams.warningMilliseconds == 90_000 && whole.streams.heartbeatMilliseconds == 15_000)
        #expect(second.takesWebSockets && second.maxWebSockets == 7 && second.shadow == .tier && third.shadow == .limit)
        #expect(second.forwardsEmail && !second.forwardsAuthorization && !second.forwardsName && third.forwardsName && !third.forwardsEmail)
        var cache = CacheRule()
        (cache.freshSeconds, cache.staleSeconds, cache.errorSeconds, cache.vary) = (90, 45, 120, ["x-a"])
        #expect(third.cache == cache && second.cache == CacheRule())
        let upstream = settings.upstreams[0].settings
        #expect(
            upstream.balance == .roundRobin && upstream.health == .path("/up") && upstream.timeout == 5_000
                && upstream.connectTimeout == 3_000)
        #expect([upstream.retries, upstream.maxConnections, upstream.maxRequests, upstream.maxPending] == [3, 11, 12, 13])
        #expect(upstream.retryPercent == 25 && upstream.minRetries == 4 && upstream.sendsOwnHost)
        #expect(settings.upstreams[0].speaksHTTP2 && settings.upstreams[0].pathsAreExact && settings.upstreams[0].authorityFile == "ca.pem")
        var rules = OutlierRules()
        (rules.failures, rules.interval, rules.maxEjected, rules.minSuccess) = (nil, 20_000, 30, 90)
        (rules.latency, rules.panic, rules.slowStart) = (.factor(3), 40, 10_000)
        #expect(upstream.outliers == rules)
        #expect(settings.upstreams[1].settings == UpstreamSettings(name: "v"))
        let trust = try #require(settings.trusts.first)
        #expect(trust.issuer == "https://i.test" && trust.audiences == ["a", "b"] && trust.keySource == .url("https://i.test/keys"))
        #expect(trust.algorithms == AlgorithmSet(.RS256) && [trust.userClaim, trust.emailClaim] == ["uid", "mail"])
        #expect(
            trust.tierSource == .lookup && trust.tierURL == "https://t.test/tier" && trust.tierMaxAgeSeconds == 120
                && trust.maxLifetimeSeconds == 604_800)
        #expect(trust.refresh == RefreshDeclaration(url: "https://i.test/refresh", contract: .dlauth) && trust.hasAccounts)
        let caller = try #require(settings.internals.first).caller
        #expect(caller.keySHA256 == [UInt8](repeating: 0xAB, count: 32) && caller.networks.map(\.text) == ["10.0.0.0/8", "fd00::/8"])
        #expect(caller.certificateName == "spiffe://i.test/a")
        let provider = try #require(settings.providers.first)
        #expect(provider.name.rawValue == "p" && provider.trustsEmail && provider.unnamedNonce == .required)
        #expect(provider.clientIDs == ["p.app", "p.web"] && provider.issuers == ["https://p.test"])
        #expect(provider.keySource == .url("https://p.test/keys"))
        let product = try #require(settings.products.first)
        #expect(product.products.map { $0.products.joined(separator: " ") } == ["a1 a2", "g1", "price_1", "r1"])
        #expect(product.tier == "premium" && product.graceSeconds == 16 * 86_400)
        let apple = try #require(settings.appleStore), google = try #require(settings.googleStore)
        #expect(apple.bundleIDs == ["b.one", "b.two"] && apple.environments == [.production, .sandbox] && apple.appAppleID == 4_711)
        #expect(
            [apple.roots?.path, apple.apiKey?.path, apple.keyID, apple.issuerID, apple.apiURL] == [
                "s", "t", "K1", "I1", "https://apple.test",
            ])
        #expect(google.packages == ["p.one", "p.two"] && google.serviceAccount?.bytes == sharedSecret)
        #expect(
            [google.audience, google.pushEmail, google.jwks, google.tokenURL, google.apiURL] == [
                "https://aud.test", "push@p.test", "https://keys.test", "https://token.test", "https://google.test",
            ])
        let stripe = try #require(settings.stripeStore), revenueCat = try #require(settings.revenueCatStore)
        #expect(
            stripe.secrets.map(\.path) == ["w", "v"] && stripe.apiKey?.bytes == Self.files["t"] && stripe.apiURL == "https://stripe.test")
        #expect(
            google.environments == [.sandbox] && stripe.environments == [.sandbox] && revenueCat.environments == [.sandbox]
                && revenueCat.authorization?.path == "t")
        #expect(settings.scopedAdminTokens.map(\.token) == [ScopedToken(name: "t", bytes: Self.files["t"]!, scopes: [.usersRead, .tier])])
    }

    @Test func omittedKeysOfAnIssuerHaveSafeDefaults() throws {
        let lines =
            "TOLLGATE_TRUST_A=\"audience=any jwks=http://i/\"\nTOLLGATE_TRUST_B=\"audience=a secret-file=s\"\nTOLLGATE_INTERNAL_I=\"key-sha256=\(String(repeating: "aB", count: 32))\"\n"
        let settings = load(lines + oneRoute, files: ["s": sharedSecret]).partial.settings
        #expect(settings.trusts.map(\.algorithms) == [.asymmetric, AlgorithmSet(.HS256)] && settings.trusts[0].maxLifetimeSeconds == nil)
        #expect(settings.trusts[1].keySource == .secret(sharedSecret) && settings.trusts[0].issuer == nil)
        #expect(settings.internals.map(\.caller.keySHA256) == [[UInt8](repeating: 0xAB, count: 32)])
    }

    @Test func everyOptionIsShown() throws {
        #expect(keys(Self.route) == Set(RouteDeclaration.options.map(\.key)))
        #expect(keys(Self.upstream) == Set(UpstreamDeclaration.options.map(\.key)))
        #expect(keys(Self.trust) == Set(TrustDeclaration.options.map(\.key)))
        #expect(keys(Self.internalCaller) == Set(InternalDeclaration.options.map(\.key)))
        #expect(keys(Self.versionGate) == Set(VersionGateDeclaration.options.map(\.key)))
        #expect(keys(Self.resource) == Set(ResourceDeclaration.options.map(\.key)))
        #expect(keys(Self.provider) == Set(ProviderDeclaration.options.map(\.key)))
        #expect(keys(Self.adminToken) == Set(AdminTokenDeclaration.options.map(\.key)))
        #expect(keys(Self.product) == Set(ProductDeclaration.options.map(\.key)))
        #expect(keys(Self.apple) == Set(AppleStoreDeclaration.options.map(\.key)))
        #expect(keys(Self.google) == Set(GoogleStoreDeclaration.options.map(\.key)))
        #expect(keys(Self.stripe) == Set(StripeStoreDeclaration.options.map(\.key)))
        #expect(keys(Self.revenueCat) == Set(RevenueCatStoreDeclaration.options.map(\.key)))
        let text =
            "TOLLGATE_UPSTREAM_U=http://h\nTOLLGATE_UPSTREAM_V=http://v\nTOLLGATE_ACCOUNT=/account\nTOLLGATE_FACTOR=offered\n"
            + lines("ROUTE", "/a", Array(Self.route.prefix { $0.option != "" }))
            + "TOLLGATE_ROUTE_W=\"/w upstream=u websocket=on websocket-max=7\"\n"
            + "TOLLGATE_ROUTE_X=\"/x upstream=u cache=90s cache-by=tier cache-stale=45s cache-on-error=2m cache-vary=X-A,Cookie\"\n"
            + lines("UPSTREAM", "https://h", Self.upstream)
            + lines("TRUST", "", Self.trust) + lines("RESOURCE", "", Self.resource)
        let loaded = load(text + Self.otherLines, files: Self.files)
        #expect(loaded.findings.faults == [])
        let (table, json) = (CheckCommand.run(loaded, json: false).output, CheckCommand.run(loaded, json: true).output)
        #expect(json.contains(#""endpoints":[{"name":"password-register","mount":"password@/api/v1""#))
        for (option, member) in Self.route + Self.upstream + Self.trust {
            #expect(json.contains(member), "\(member)")
            #expect(table.contains(option) != Self.columns.contains(String(option.prefix { $0 != "=" })), "\(option)")
        }
        let purchases = Self.product + Self.apple + Self.google + Self.stripe + Self.revenueCat
        for (option, member) in Self.resource + Self.internalCaller + Self.versionGate + Self.provider + Self.adminToken + purchases {
            #expect(json.contains(member) || member == "", "\(member)")
            let shown = option.hasPrefix("key-sha256=") ? "key-sha256=abababab…" : option
            #expect(table.contains(shown) == (member != "" && option != "tier=premium"), "\(option)")
        }
        // The description of the admin API has every member of a route.
        let names = RouteDeclaration.options.map { String($0.jsonName.prefix { $0 != "." }) }
        let described = ShownRoute.record.fields.map(\.member.name)
        #expect(Set(names).isSubset(of: described), "\(Set(names).subtracting(described))")
    }

    @Test func theRulesOfAccountsAreShown() {
        let attestation = Self.attestation.map(\.option).joined(separator: " ")
        let loaded = load(
            """
            TOLLGATE_ACCOUNT=/account
            TOLLGATE_PASSKEY="rp-id=example.org origins=https://app.example.org"
            TOLLGATE_FACTOR=required:premium
            TOLLGATE_ATTEST_A="\(attestation)"
            TOLLGATE_ATTEST_SIGNIN="A shadow=attest"
            TOLLGATE_DEVICE_KEY_PASSWORD=off
            TOLLGATE_DEVICE_KEY_DLAUTH=required
            TOLLGATE_DPOP_NONCE=on
            \(oneRoute)
            """)
        #expect(loaded.findings.faults == [])
        let (table, json) = (CheckCommand.run(loaded, json: false).output, CheckCommand.run(loaded, json: true).output)
        let shown = """
            FOR ACCOUNTS     IS
            passkey_domain   example.org
            passkey_origins  https://app.example.org https://example.org
            second_factor    required:premium
            attest_signin    a shadow=attest
            device_keys      dlauth:required password:off

            """
        #expect(table.contains(shown) && table.contains("dpop_nonce      on\n"), "\(table)")
        #expect(json.contains(#""edge":{"dpop_nonce":["on"]},"accounts":{"passkey_domain":["example.org"],"#), "\(json)")
        #expect(json.contains(#""second_factor":["required:premium"],"attest_signin":["a","shadow=attest"],"#), "\(json)")
    }

    @Test func eventsToAPrivateAddressNeedTheirOption() {
        for (url, host) in [
            ("http://localhost:9/in", "localhost"), ("https://10.0.0.8/in", "10.0.0.8"), ("http://[::1]:9", "::1"),
            ("https://crm.example.org/in", nil), ("https://8.8.8.8/in", nil),
        ] {
            for option in ["", "private=on"] {
                let line = "TOLLGATE_EVENTS_CRM='url=\(url) secret-file=s \(option)'"
                var loaded = load("\(line)\n\(oneRoute)", files: ["s": Array(repeating: 0x61, count: 32)])
                Webhooks.check(loaded.partial.settings, &loaded.findings)
                let fault = host.map {
                    "a.env:1: TOLLGATE_EVENTS_CRM: has url= with the private address \($0), where nothing is sent: write private=on, or a public one"
                }
                #expect(loaded.findings.faults.map(\.text) == (option == "" ? [fault].compactMap(\.self) : []), "\(line)")
            }
        }
    }
}
