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
        let tokens = Watched<Tokens?>(nil)
        func load() -> Tokens? { tokens.now }
        func save(_ new: Tokens?) { tokens.change { $0 = new } }
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
        ].joined(separator: "\n")
        gateway = try Gateway(settings)
        relay = try Relay(to: gateway.port)
    }

    private func app(_ contract: Contract, at url: String? = nil, device: String? = nil) throws -> AuthManager {
        let network = URLSession(configuration: .ephemeral)
        return try AuthManager(
            url: try #require(URL(string: url ?? relay.url)), contract: contract.auth, store: store, network: network,
            device: device, pause: .milliseconds(20))
    }

    private func signedIn(_ contract: Contract) async throws -> AuthManager {
        let auth = try app(contract)
        if let provider = contract.provider {
            let token = try providers.token(provider, #"{"sub":"001.client"}"#)
            try await auth.signIn(contract.path, ["provider": provider, "idToken": token])
        } else {
            try await auth.signIn(contract.path, ["email": "ada@example.org", "password": goodPassword])
        }
        return auth
    }

    /// The same app after the end of its access token.
    private func later(_ contract: Contract) throws -> AuthManager {
        let access = try expired(store.tokens.now?.access ?? "", secret: Self.secret)
        store.tokens.change { $0?.access = access }
        return try app(contract)
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
            let (before, auth) = (store.tokens.now, try later(contract))
            let request = try request()
            try await withThrowingTaskGroup(of: Int?.self) { group in
                for _ in 0..<12 { group.addTask { (try await auth.send(request).1 as? HTTPURLResponse)?.statusCode } }
                for try await status in group { #expect(status == 200) }
            }
            #expect(requests(to: contract.refresh) == round)
            #expect((store.tokens.now?.refresh == before?.refresh) == (contract.testDescription == "password"))
        }
    }

    @Test(arguments: contracts)
    func aRefreshWhoseAnswerIsLostIsAskedForAgain(_ contract: Contract) async throws {
        _ = try await signedIn(contract)
        for round in 1...2 {
            relay.answerNext(
                to: contract.refresh, [nil, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"])
            #expect(try await status(later(contract)) == 200)
            #expect(requests(to: contract.refresh) == 3 * round)
        }
    }

    /// The access tokens of a gateway whose clock is hours away seem to have expired long ago, or to last for long.
    @Test(arguments: [-7_200, 7_200]) func theAppsClockMakesNoDifference(_ ahead: Int) async throws {
        let gateway = try Gateway(settings, environment: try WrongClock.shared.get().environment(ahead))
        let (relay, contract) = (try Relay(to: gateway.port), Self.contracts[3])
        let auth = try app(contract, at: relay.url)
        try await auth.signIn(contract.path, ["email": "ada@example.org", "password": goodPassword])
        let request = URLRequest(url: try #require(URL(string: relay.url + "/progress")))
        #expect((try await auth.send(request).1 as? HTTPURLResponse)?.statusCode == 200)
        #expect(relay.seen.now.count { $0.hasSuffix(contract.refresh) } == 0)
        let access = try expired(store.tokens.now?.access ?? "", secret: Self.secret, now: unixNow + ahead)
        store.tokens.change { $0?.access = access }
        let later = try app(contract, at: relay.url)
        #expect((try await later.send(request).1 as? HTTPURLResponse)?.statusCode == 200)
        #expect(relay.seen.now.count { $0.hasSuffix(contract.refresh) } == 1)
    }

    @Test func aContractWithoutRefreshSignsInAgain() async throws {
        let contract = Contract(testDescription: "apple", auth: .apple, path: "/registerUser", provider: "apple")
        var auth = try await signedIn(contract)
        #expect(try await status(auth) == 200)
        let former = store.tokens.now?.access
        #expect(await auth.signOut())
        #expect(try gateway.send("GET /progress", bearer: former).status == 401)
        _ = try await signedIn(contract)
        auth = try later(contract)
        let asked = relay.seen.now.count
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(store.tokens.now == nil && relay.seen.now.count == asked + 1)
    }

    @Test func aBanEndsTheSessionWithItsSentence() async throws {
        let contract = Self.contracts[1]
        _ = try await signedIn(contract)
        let auth = try later(contract)
        let body = #"{"error":"The account is banned for good.","code":"ACCOUNT_BANNED"}"#
        relay.answerNext(
            to: contract.refresh, ["HTTP/1.1 403 Forbidden\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"])
        await #expect(throws: AuthError.refused(status: 403, code: "ACCOUNT_BANNED", message: "The account is banned for good.")) {
            try await auth.send(request())
        }
        #expect(store.tokens.now == nil)
    }

    @Test func aSignInNamesTheDevice() async throws {
        let server = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
        let auth = try app(Self.contracts[0], at: server.url, device: "Ada's phone")
        await #expect(throws: AuthError.unavailable) { try await auth.signIn("/auth/login", ["email": "ada@example.org"]) }
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
        let auth = try later(contract)
        let kept = store.tokens.now
        relay.answerNext(to: contract.refresh, [answer, answer, answer])
        await #expect(throws: AuthError.unavailable) { try await auth.send(request()) }
        #expect(store.tokens.now == kept && requests(to: contract.refresh) == 3)
        #expect(try await status(auth) == 200)
    }

    @Test func withoutANetworkTheTokensAreKept() async throws {
        let contract = Self.contracts[1]
        _ = try await signedIn(contract)
        let kept = store.tokens.now
        let nowhere = try Listening.refusing()
        let auth = try app(contract, at: "http://127.0.0.1:\(nowhere.port)")
        let away = URLRequest(url: try #require(URL(string: "http://127.0.0.1:\(nowhere.port)/progress")))
        await #expect(throws: URLError.self) { try await auth.send(away) }
        await #expect(throws: URLError.self) { try await auth.signIn("/auth/signin", ["provider": "apple"]) }
        #expect(store.tokens.now == kept)
    }

    @Test(arguments: contracts)
    func aSessionThatHasEndedSignsOut(_ contract: Contract) async throws {
        let auth = try await signedIn(contract)
        let form = Array("token=\(store.tokens.now?.refresh ?? "")".utf8)
        #expect(try gateway.ask("POST /oauth/revoke", ["Content-Type: application/x-www-form-urlencoded"], body: form).status == 200)
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(store.tokens.now == nil && requests(to: contract.refresh) == 1)
        let asked = relay.seen.now.count
        await #expect(throws: AuthError.signedOut) { try await auth.send(request()) }
        #expect(await !auth.isSignedIn && relay.seen.now.count == asked)
    }

    @Test(arguments: contracts)
    func aSignOutWithAnExpiredTokenEndsTheSession(_ contract: Contract) async throws {
        _ = try await signedIn(contract)
        let auth = try later(contract)
        let former = try #require(store.tokens.now)
        #expect(await auth.signOut())
        #expect(store.tokens.now == nil)
        store.save(former)
        await #expect(throws: AuthError.signedOut) { try await app(contract).send(request()) }
        // Without a network the tokens go all the same.
        _ = try await signedIn(Self.contracts[2])
        relay.answerNext(to: "/oauth/revoke", [nil])
        let offline = try app(Self.contracts[2])
        #expect(await !offline.signOut())
        #expect(store.tokens.now == nil)
    }

    @Test func aSignOutDuringARefreshIsNotUndone() async throws {
        let contract = Self.contracts[3]
        _ = try await signedIn(contract)
        relay.answerNext(to: contract.refresh, [nil])
        let auth = try later(contract)
        let request = try request()
        let late = Task { _ = try await auth.send(request) }
        while requests(to: contract.refresh) == 0 { try await Task.sleep(for: .milliseconds(1)) }
        #expect(await auth.signOut())
        await #expect(throws: AuthError.signedOut) { try await late.value }
        #expect(store.tokens.now == nil)
    }

    @Test func whatNoRefreshMendsIsTheCallers() async throws {
        var auth = try await signedIn(Self.contracts[0])
        // It does not say when its user signed in.
        let minted = try gateway.bearer("--sub", "ada").split(whereSeparator: \.isWhitespace)
        store.tokens.change { $0?.access = String(minted.last ?? "") }
        auth = try app(Self.contracts[0])
        #expect(try await status(auth, "/fresh") == 401)
        #expect(requests(to: Self.contracts[0].refresh) == 0 && requests(to: "/fresh") == 1)
        await #expect(throws: AuthError.refused(status: 401, code: "UNAUTHORIZED", message: "Invalid email or password")) {
            try await auth.signIn("/auth/login", ["email": "ada@example.org", "password": "another password"])
        }
        #expect(await auth.isSignedIn)
    }

    @Test func anAnonymousUserKeepsTheAccountWithAnEmail() async throws {
        let contract = Self.contracts[2]
        _ = try await signedIn(contract)
        let user = try claims(of: store.tokens.now?.access ?? "")["sub"].text
        let auth = try later(contract)
        #expect(try gateway.send("POST /auth/email/code", #"{"email":"ada@example.org"}"#).status == 200)
        let code = try must(try gateway.message(to: "ada@example.org")["code"])
        try await auth.signIn("/auth/email/verify", ["email": "ada@example.org", "code": code], keepsAccount: true)
        let access = try #require(store.tokens.now?.access)
        #expect(try claims(of: access)["sub"].text == user && claims(of: access)["email"].text == "ada@example.org")
    }
}
