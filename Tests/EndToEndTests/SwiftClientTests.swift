import Foundation
import FoundationNetworking
import TestThreads
import Testing

/// The client of `docs/clients/Tollgate.swift`, against a gateway whose answers get lost.
@Suite(.ownThread) struct SwiftClientTests {
    private static let secret = "a secret of more than thirty-two bytes"

    /// A contract, and how its users of these tests sign in.
    struct Contract: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let auth: AuthContract
        let path: String
        var provider: String?

        var refresh: String { auth.base + auth.refreshPath }
    }

    static let contracts = [
        Contract(testDescription: "password", auth: .password, path: "/auth/register"),
        Contract(testDescription: "provider", auth: .provider, path: "/auth/signin", provider: "apple"),
        Contract(testDescription: "anonymous", auth: .anonymous, path: "/auth/user"),
        Contract(testDescription: "dlauth", auth: .dlauth, path: "/auth/signup"),
    ]

    /// The store of an app that ends and begins again.
    private final class Kept: TokenStore {
        let session = Watched(Session())
        func load() -> Session { session.now }
        func save(_ new: Session) { session.change { $0 = new } }

        var tokens: Tokens? { session.now.tokens }
        func set(_ access: String) { session.change { $0.tokens?.access = access } }
    }

    private let settings: String
    private let gateway: Gateway
    private let relay: Relay
    private let providers: Providers
    private let upstream: Upstream
    private let store = Kept()

    init() throws {
        providers = try Providers.shared.get()
        upstream = try Upstream()
        settings = [
            Gateway.contracts, providers.settings(), "TOLLGATE_JWT_SECRET=\"\(Self.secret)\"", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"",
            "TOLLGATE_ROUTE_PROGRESS=\"/progress upstream=u\"", "TOLLGATE_ROUTE_FRESH=\"/fresh upstream=u max-age=1s\"",
            "TOLLGATE_ACCOUNT=/account",
        ].joined(separator: "\n")
        gateway = try Gateway(settings)
        relay = try Relay(to: gateway.port)
    }

    private func app(at url: String? = nil, device: String? = nil) throws -> AuthManager {
        let network = URLSession(configuration: .ephemeral)
        return try AuthManager(
            url: try #require(URL(string: url ?? relay.url)), store: store, network: network, device: device, pause: .milliseconds(20))
    }

    private func signedIn(_ contract: Contract) async throws -> AuthManager {
        let auth = try app()
        if let provider = contract.provider {
            let token = try providers.token(provider, #"{"sub":"001.client"}"#)
            try await auth.signIn(contract.auth, contract.path, ["provider": provider, "idToken": token])
        } else {
            try await auth.signIn(contract.auth, contract.path, ["email": "ada@example.org", "password": goodPassword])
        }
        return auth
    }

    /// The same app after the end of its access token.
    private func later() throws -> AuthManager {
        store.set(try expired(store.tokens?.access ?? "", secret: Self.secret))
        return try app()
    }

    private func request(_ path: String = "/progress") throws -> URLRequest { URLRequest(url: try #require(URL(string: relay.url + path))) }

    private func status(_ auth: AuthManager, _ path: String = "/progress") async throws -> Int? {
        (try await auth.send(request(path)).1 as? HTTPURLResponse)?.statusCode
    }

    private func requests(to target: String) -> Int { relay.seen.now.count { $0.hasSuffix(" " + target) } }

    /// In the language of older projects too.
    @Test(arguments: ["5", "6"]) func theFileNeedsFoundationAlone(_ language: String) throws {
        let file = DocumentPage.root.appending(path: "docs/clients/Tollgate.swift").path
        let path = ProcessInfo.processInfo.environment["PATH"] ?? ""
        try mustRun(
            "/usr/bin/env", ["swiftc", "-typecheck", "-warnings-as-errors", "-swift-version", language, file], environment: ["PATH": path])
    }

    @Test(arguments: contracts)
    func requestsWithAnExpiredTokenRefreshItOnce(_ contract: Contract) async throws {
        #expect(try await status(signedIn(contract)) == 200)
        for round in 1...2 {
            let (before, auth) = (store.tokens, try later())
            let request = try request()
            try await withThrowingTaskGroup(of: Int?.self) { group in
                for _ in 0..<12 { group.addTask { (try await auth.send(request).1 as? HTTPURLResponse)?.statusCode } }
                for try await status in group { #expect(status == 200) }
            }
            #expect(requests(to: contract.refresh) == round)
            #expect((store.tokens?.refresh == before?.refresh) == (contract.testDescription == "password"))
        }
    }

    @Test(arguments: contracts)
    func aRefreshWhoseAnswerIsLostIsAskedForAgain(_ contract: Contract) async throws {
        _ = try await signedIn(contract)
        for round in 1...2 {
            relay.answerNext(
                to: contract.refresh, [nil, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"])
            #expect(try await status(later()) == 200)
            #expect(requests(to: contract.refresh) == 3 * round)
        }
    }

    /// The access tokens of a gateway whose clock is hours away seem to have expired long ago, or to last for long.
    @Test(arguments: [-7_200, 7_200]) func theAppsClockMakesNoDifference(_ ahead: Int) async throws {
        let gateway = try Gateway(settings, environment: try WrongClock.shared.get().environment(ahead))
        let (relay, contract) = (try Relay(to: gateway.port), Self.contracts[3])
        let auth = try app(at: relay.url)
        try await auth.signIn(contract.auth, contract.path, ["email": "ada@example.org", "password": goodPassword])
        let request = URLRequest(url: try #require(URL(string: relay.url + "/progress")))
        #expect((try await auth.send(request).1 as? HTTPURLResponse)?.statusCode == 200)
        #expect(relay.seen.now.count { $0.hasSuffix(contract.refresh) } == 0)
        store.set(try expired(store.tokens?.access ?? "", secret: Self.secret, now: unixNow + ahead))
        let later = try app(at: relay.url)
        #expect((try await later.send(request).1 as? HTTPURLResponse)?.statusCode == 200)
        #expect(relay.seen.now.count { $0.hasSuffix(contract.refresh) } == 1)
    }

    @Test func aContractWithoutRefreshSignsInAgain() async throws {
        let contract = Contract(testDescription: "apple", auth: .apple, path: "/registerUser", provider: "apple")
        var auth = try await signedIn(contract)
        #expect(try await status(auth) == 200)
        let former = store.tokens?.access
        #expect(await auth.signOut())
        #expect(try gateway.send("GET /progress", bearer: former).status == 401)
        _ = try await signedIn(contract)
        auth = try later()
        let asked = relay.seen.now.count
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(store.tokens == nil && relay.seen.now.count == asked + 1)
    }

    /// A ban ends the sessions: the next sign-in says so.
    @Test func aBanSignsOutAndRefusesTheSignIn() async throws {
        _ = try await signedIn(Self.contracts[0])
        let outcome = try gateway.command(["user", "ban", "ada@example.org"])
        #expect(outcome.code == 0, "\(outcome.complaints)")
        let auth = try later()
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(store.session.now == Session())
        await #expect(throws: AuthError.refused(status: 403, code: "ACCOUNT_BANNED", message: "The account is banned for good.")) {
            try await auth.signIn(.password, "/auth/login", ["email": "ada@example.org", "password": goodPassword])
        }
    }

    @Test func aSignInNamesTheDevice() async throws {
        let server = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
        let auth = try app(at: server.url, device: "Ada's phone")
        await #expect(throws: AuthError.unavailable) { try await auth.signIn(.password, "/auth/login", ["email": "ada@example.org"]) }
        #expect(server.requests.now.first?["x-device-name"] == "Ada's phone")
    }

    static let noVerdicts: [String?] = [
        nil, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 16\r\n\r\n{\"error\":\"away\"}",
        "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 16\r\n\r\n{\"error\":\"slow\"}",
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n<html/>",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 401 Unauthorized\r\nContent-Length: 7\r\n\r\n<html/>",
        "HTTP/1.1 403 Forbidden\r\nContent-Length: 16\r\n\r\n{\"error\":\"none\"}",
    ]

    @Test(arguments: noVerdicts)
    func nothingButARefusalSignsOut(_ answer: String?) async throws {
        let contract = Self.contracts[0]
        _ = try await signedIn(contract)
        let auth = try later()
        let kept = store.tokens
        relay.answerNext(to: contract.refresh, [answer, answer, answer])
        await #expect(throws: AuthError.unavailable) { try await auth.send(request()) }
        #expect(store.tokens == kept && requests(to: contract.refresh) == 3)
        #expect(try await status(auth) == 200)
    }

    static let proofRefusals = [
        #"{"error":{"code":"DEVICE_PROOF_REQUIRED","message":"why"}}"#, #"{"error":"device_proof_invalid","message":"why"}"#,
        #"{"error":"why","code":"DEVICE_PROOF_INVALID"}"#,
    ]

    /// It ends no session, in the form of any contract.
    @Test(arguments: proofRefusals, [400, 401])
    func aRefusedProofOfTheDevicesKeyKeepsTheTokens(_ body: String, _ code: Int) async throws {
        let contract = Self.contracts[0]
        _ = try await signedIn(contract)
        let auth = try later()
        let kept = store.tokens
        relay.answerNext(to: contract.refresh, ["HTTP/1.1 \(code) Refused\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"])
        let name = body.contains("REQUIRED") ? "DEVICE_PROOF_REQUIRED" : "DEVICE_PROOF_INVALID"
        let spelled = body.contains(name) ? name : name.lowercased()
        await #expect(throws: AuthError.refused(status: code, code: spelled, message: "why")) { try await auth.send(request()) }
        #expect(store.tokens == kept && requests(to: contract.refresh) == 1)
        #expect(try await status(auth) == 200)
    }

    /// As after a sign-in by a passkey, whose requests the app sends itself.
    @Test func theTokensOfAnAnswerAreAdopted() async throws {
        let (auth, user) = try await guest()
        func answer(_ email: String) async throws -> (Data, URLResponse) {
            var request = try request("/auth/signup")
            request.httpMethod = "POST"
            request.httpBody = Data(#"{"email":"\#(email)","password":"\#(goodPassword)"}"#.utf8)
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            return try await URLSession.shared.data(for: request)
        }
        try await auth.adopt(.dlauth, answer("ada@example.org"))
        #expect(store.tokens?.contract == .dlauth && store.session.now.guests.map(\.account) == [user])
        #expect(try await status(auth) == 200)
        let kept = store.session.now
        await #expect(throws: AuthError.self) { try await auth.adopt(.dlauth, answer("no email")) }
        #expect(store.session.now == kept)
    }

    @Test func withoutANetworkTheTokensAreKept() async throws {
        let contract = Self.contracts[1]
        _ = try await signedIn(contract)
        let kept = store.tokens
        let nowhere = try Listening.refusing()
        let auth = try app(at: "http://127.0.0.1:\(nowhere.port)")
        let away = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(nowhere.port)/progress")))
        await #expect(throws: URLError.self) { try await auth.send(away) }
        await #expect(throws: URLError.self) { try await auth.signIn(.provider, "/auth/signin", ["provider": "apple"]) }
        #expect(store.tokens == kept)
    }

    @Test(arguments: contracts)
    func aSessionThatHasEndedSignsOut(_ contract: Contract) async throws {
        let auth = try await signedIn(contract)
        let form = Array("token=\(store.tokens?.refresh ?? "")".utf8)
        #expect(try gateway.ask("POST /oauth/revoke", ["Content-Type: application/x-www-form-urlencoded"], body: form).status == 200)
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(store.tokens == nil && requests(to: contract.refresh) == 1)
        let asked = relay.seen.now.count
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(await !auth.isSignedIn && relay.seen.now.count == asked)
    }

    @Test(arguments: contracts)
    func aSignOutWithAnExpiredTokenEndsTheSession(_ contract: Contract) async throws {
        _ = try await signedIn(contract)
        let auth = try later()
        let former = try #require(store.tokens)
        #expect(await auth.signOut())
        #expect(store.tokens == nil)
        store.save(Session(tokens: former))
        await #expect(throws: AuthError.signedOut) { try await app().send(request()) }
        // Without a network the tokens go all the same.
        _ = try await signedIn(Self.contracts[2])
        relay.answerNext(to: "/oauth/revoke", [nil])
        let offline = try app()
        #expect(await !offline.signOut())
        #expect(store.tokens == nil)
    }

    @Test func aSignOutDuringARefreshIsNotUndone() async throws {
        let contract = Self.contracts[3]
        _ = try await signedIn(contract)
        relay.answerNext(to: contract.refresh, [nil])
        let auth = try later()
        let request = try request()
        let late = Task { _ = try await auth.send(request) }
        while requests(to: contract.refresh) == 0 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(await auth.signOut())
        await #expect(throws: AuthError.signedOut) { try await late.value }
        #expect(store.tokens == nil)
    }

    @Test func whatNoRefreshMendsIsTheCallers() async throws {
        var auth = try await signedIn(Self.contracts[0])
        // It does not say when its user signed in.
        let minted = try gateway.bearer("--sub", "ada").split(whereSeparator: \.isWhitespace)
        store.set(String(minted.last ?? ""))
        auth = try app()
        #expect(try await status(auth, "/fresh") == 401)
        #expect(requests(to: Self.contracts[0].refresh) == 0 && requests(to: "/fresh") == 1)
        await #expect(throws: AuthError.refused(status: 401, code: "UNAUTHORIZED", message: "Invalid email or password")) {
            try await auth.signIn(.password, "/auth/login", ["email": "ada@example.org", "password": "another password"])
        }
        #expect(await auth.isSignedIn)
    }

    // MARK: guests

    /// A guest whose access token has expired.
    private func guest() async throws -> (auth: AuthManager, user: String) {
        _ = try await signedIn(Self.contracts[2])
        let auth = try later()
        return (auth, try #require(store.tokens?.account))
    }

    private func appleBody(_ subject: String) throws -> [String: String] {
        ["provider": "apple", "idToken": try providers.token("apple", #"{"sub":"\#(subject)"}"#)]
    }

    @Test func aGuestKeepsTheAccountWithAnEmail() async throws {
        let (auth, user) = try await guest()
        #expect(try gateway.send("POST /auth/email/code", #"{"email":"ada@example.org"}"#).status == 200)
        let code = try must(try gateway.message(to: "ada@example.org")["code"])
        try await auth.signIn(.anonymous, "/auth/email/verify", ["email": "ada@example.org", "code": code], keepsAccount: true)
        let access = try #require(store.tokens?.access)
        #expect(try claims(of: access)["sub"].text == user && claims(of: access)["email"].text == "ada@example.org")
        #expect(await !auth.hasGuest)
    }

    /// In another contract, where the gateway ignores an expired token; also if the answer of the refresh is lost.
    @Test(arguments: [false, true]) func aGuestKeepsTheAccountWithApple(_ isLost: Bool) async throws {
        let (auth, user) = try await guest()
        if isLost { relay.loseNextAnswer(to: Self.contracts[2].refresh) }
        try await auth.signIn(.provider, "/auth/signin", appleBody("001.new"), keepsAccount: true)
        #expect(store.tokens?.account == user && store.tokens?.contract == .provider)
        #expect(await !auth.hasGuest)
        #expect(try await status(later()) == 200)
        #expect(requests(to: Self.contracts[1].refresh) == 1)
    }

    @Test func aSignInWaitsForTheGuestsToken() async throws {
        let (auth, user) = try await guest()
        relay.answerNext(to: Self.contracts[2].refresh, [nil, nil, nil])
        await #expect(throws: AuthError.unavailable) {
            try await auth.signIn(.provider, "/auth/signin", appleBody("001.new"), keepsAccount: true)
        }
        #expect(store.tokens?.account == user && requests(to: "/auth/signin") == 0)
    }

    @Test func aGuestIsMergedIntoTheAccountThatWasThere() async throws {
        let owner = try await signedIn(Self.contracts[1])
        let account = try #require(store.tokens?.account)
        #expect(await owner.signOut())
        let (auth, user) = try await guest()
        try await auth.signIn(.provider, "/auth/signin", appleBody("001.client"), keepsAccount: true)
        #expect(store.tokens?.account == account && store.session.now.guests.map(\.account) == [user])
        // The app ends before it has asked, and its token expires; then the answer is lost.
        let later = try later()
        relay.loseNextAnswer(to: "/account/merge")
        await #expect(throws: URLError.self) { try await later.mergeGuest() }
        #expect(await later.hasGuest)
        try await later.mergeGuest()
        #expect(store.session.now.guests == [] && store.tokens?.account == account)
    }

    @Test func aGuestWhoHasASignInIsNotMergedAndDropped() async throws {
        let (auth, user) = try await guest()
        try await auth.signIn(.provider, "/auth/signin", appleBody("001.kept"), keepsAccount: true)
        #expect(store.tokens?.account == user)
        let owned = try #require(store.tokens)
        store.save(Session(guests: [owned]))
        let again = try app()
        try await again.signIn(.password, "/auth/register", ["email": "eve@example.org", "password": goodPassword])
        #expect(await again.hasGuest)
        await #expect(
            throws: AuthError.refused(
                status: 409, code: "NOT_A_GUEST",
                message: "The other account is no guest: something else signs in to it, or it is this one.")
        ) { try await again.mergeGuest() }
        #expect(await !again.hasGuest)
        #expect(await again.isSignedIn)
    }

    @Test(arguments: ["forget", "sign out"]) func aGuestWhoIsNotWantedIsDropped(_ way: String) async throws {
        let (auth, _) = try await guest()
        try await auth.signIn(.password, "/auth/register", ["email": "eve@example.org", "password": goodPassword])
        #expect(await auth.hasGuest)
        if way == "forget" { try await auth.forgetGuest() } else { #expect(await auth.signOut()) }
        #expect(store.session.now.guests == [] && (store.tokens == nil) == (way == "sign out"))
    }
}
