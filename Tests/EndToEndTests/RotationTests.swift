import Foundation
import TestThreads
import Testing

/// When a refresh token that comes back ends its session, and what a client gets that runs wild.
@Suite(.ownThread) struct RotationTests {
    private static let secret = "a secret of more than thirty-two bytes"
    /// The grace, in seconds.
    private static let grace = 2

    private let providers: Providers
    private let upstream: Upstream
    private let gateway: Gateway

    init() throws {
        providers = try Providers.shared.get()
        upstream = try Upstream()
        gateway = try Gateway(
            """
            \(Gateway.contracts)
            \(providers.settings())
            TOLLGATE_JWT_SECRET="\(Self.secret)"
            TOLLGATE_REFRESH_GRACE=\(Self.grace)s
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_R="/proxied/* upstream=u"
            """)
    }

    /// A contract whose refresh tokens rotate: where, and what they are called.
    struct Rotating: Sendable {
        let path: String
        let refresh: String
        let access: String

        static let provider = Rotating(path: "/whateat/api/v1/auth/refresh", refresh: "refreshToken", access: "accessToken")
        static let dlauth = Rotating(path: "/auth/token/refresh", refresh: "refresh_token", access: "access_token")
        static let anonymous = Rotating(path: "/auth/refresh", refresh: "refreshToken", access: "sessionToken")
    }

    private func signIn(_ contract: Rotating) throws -> String {
        switch contract.path {
        case Rotating.dlauth.path: return try gateway.signUp("ada@example.org").refresh
        case Rotating.anonymous.path: return try must(JSON(try gateway.send("POST /auth/user").text)["refreshToken"])
        default:
            let token = try providers.token("apple", #"{"sub":"001.apple"}"#)
            let answer = try gateway.send("POST /whateat/api/v1/auth/signin", #"{"provider":"apple","idToken":"\#(token)"}"#)
            return try must(JSON(answer.text)["refreshToken"])
        }
    }

    private func refresh(_ contract: Rotating, _ token: String) throws -> (status: Int, tokens: RotatedTokens?) {
        let answer = try gateway.send("POST \(contract.path)", #"{"\#(contract.refresh)":"\#(token)"}"#)
        guard answer.status == 200 else { return (answer.status, nil) }
        let body = try JSON(answer.text)
        return (200, RotatedTokens(access: try must(body[contract.access]), refresh: try must(body[contract.refresh])))
    }

    @Test(arguments: [Rotating.provider, .dlauth, .anonymous])
    func aTokenThatComesBackOnceItsSuccessorHasArrivedEndsTheSession(_ contract: Rotating) throws {
        let first = try signIn(contract)
        let pair = try #require(try refresh(contract, first).tokens)
        // The answer may have been lost: as long as nobody has used it, it can be had again.
        Thread.sleep(forTimeInterval: Double(Self.grace) + 1)
        #expect(try refresh(contract, first).tokens?.refresh == pair.refresh)
        // Two requests, of which the second finds the token in the cache.
        for _ in 0..<2 { #expect(try gateway.send("GET /proxied/x", bearer: pair.access).status == 200) }
        try eventually("the pair has arrived") { try refresh(contract, first).status != 200 }
        // Somebody else has it too: nothing of the session counts any more.
        try eventually("the access token is refused") { try gateway.send("GET /proxied/x", bearer: pair.access).status == 401 }
        #expect(try refresh(contract, pair.refresh).status == 401)
    }

    /// The new pair of a transparent refresh is on its way only: that the gateway has seen it itself does not count.
    @Test func aPairThatWasHandedBackInHeadersHasNotArrivedYet() throws {
        let digest = try run("sha256sum", [], input: "k").output.prefix(64)
        try gateway.reload(
            """
            \(Gateway.contracts)
            TOLLGATE_JWT_SECRET="\(Self.secret)"
            TOLLGATE_REFRESH_GRACE=\(Self.grace)s
            TOLLGATE_INTERNAL_BACKEND=key-sha256=\(digest)
            TOLLGATE_UPSTREAM_U="\(upstream.url)"
            TOLLGATE_ROUTE_R="/proxied/* upstream=u"
            """)
        let session = try gateway.signUp("ada@example.org")
        let old = try expired(session.access, secret: Self.secret)
        let healed = try gateway.ask(
            "GET /proxied/x", ["Authorization: Bearer \(old)", "X-Refresh-Token: \(session.refresh)", "X-Internal-Key: k"])
        #expect(healed.status == 200)
        Thread.sleep(forTimeInterval: Double(Self.grace) + 1)
        #expect(try refresh(.dlauth, session.refresh).tokens?.refresh == healed["X-New-Refresh-Token"])
        #expect(try gateway.send("GET /proxied/x", bearer: healed["X-New-Access-Token"]).status == 200)
        try eventually("the pair has arrived") { try refresh(.dlauth, session.refresh).status == 401 }
    }

    @Test func aClientThatRunsWildGetsTheSamePairAgain() throws {
        var token = try signIn(.dlauth)
        var seen: [String] = []
        for _ in 0..<25 {
            let pair = try #require(try refresh(.dlauth, token).tokens)
            // No 401 for a token just issued.
            #expect(try gateway.send("GET /proxied/x", bearer: pair.access).status == 200)
            token = pair.refresh
            seen.append(token)
        }
        // Ten steps in ten seconds at most; on a machine that takes longer for them there may be more.
        let steps = try seen.map(TransparentRefreshTests.counter)
        #expect(steps == steps.sorted() && Set(seen).count == Set(steps).count)
        if Set(seen).count < seen.count { try gateway.waitForLog("repeated refresh with one token") }
        #expect(try TransparentRefreshTests.counter(token) >= 11)
    }
}
