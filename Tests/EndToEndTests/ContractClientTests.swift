import Foundation
import TestThreads
import Testing

/// The apps that the documents print, against the gateway that they were not written for.
@Suite(.ownThread) struct ContractClientTests {
    private static let secret = "a secret of more than thirty-two bytes"

    private let gateway: Gateway
    private let relay: Relay
    private let providers: Providers
    private let upstream: Upstream

    init() throws {
        providers = try Providers.shared.get()
        upstream = try Upstream(
            Upstream.saying("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"progress\":7}"))
        let settings = [
            Gateway.contracts, providers.settings(), "TOLLGATE_JWT_SECRET=\"\(Self.secret)\"", "TOLLGATE_UPSTREAM_U=\"\(upstream.url)\"",
            "TOLLGATE_ROUTE_PROGRESS=\"/progress upstream=u errors=password\"",
        ]
        gateway = try Gateway(settings.joined(separator: "\n"))
        relay = try Relay(to: gateway.port)
    }

    private struct Progress: Decodable { let progress: Int }

    private static func expired(_ token: String) throws -> String { try EndToEndTests.expired(token, secret: secret) }

    private func requests(_ ending: String) -> Int { relay.seen.now.count { $0.hasSuffix(ending) } }

    // MARK: password

    @Test func thePasswordAppGoesThroughItsLife() async throws {
        let app = PasswordApp(relay.url + "/api/v1")
        let user = try await app.register(email: "ada@example.org", password: goodPassword)
        #expect(user.username == "ada" && user.email == "ada@example.org" && !user.isPremium)
        #expect(try await app.getCurrentUser().id == user.id)
        #expect(try await app.makeAuthenticatedRequest(relay.url + "/progress", Progress.self).progress == 7)
        app.logout()
        await #expect(throws: AppFault.unauthorized("Invalid email or password")) {
            _ = try await app.login(email: "ada@example.org", password: "not the password")
        }
        #expect(try await app.login(email: "ada@example.org", password: goodPassword).id == user.id)
    }

    @Test func thePasswordAppRefreshesAnExpiredTokenOnceAndGoesOn() async throws {
        let app = PasswordApp(relay.url + "/api/v1")
        let user = try await app.register(email: "ada@example.org", password: goodPassword)
        let refresh = app.keychain["refresh_token"]
        for _ in 0..<2 {
            app.keychain["access_token"] = try Self.expired(app.keychain["access_token"] ?? "")
            #expect(try await app.getCurrentUser().id == user.id)
        }
        app.keychain["access_token"] = try Self.expired(app.keychain["access_token"] ?? "")
        #expect(try await app.makeAuthenticatedRequest(relay.url + "/progress", Progress.self).progress == 7)
        // It repeats without a limit, and has had no need to.
        #expect((requests("/auth/refresh"), requests("/auth/me"), requests("/progress")) == (3, 4, 2))
        #expect(app.keychain["refresh_token"] == refresh)
    }

    @Test func aLostRefreshAnswerDoesNotSignThePasswordAppOut() async throws {
        let app = PasswordApp(relay.url + "/api/v1")
        let user = try await app.register(email: "ada@example.org", password: goodPassword)
        app.keychain["access_token"] = try Self.expired(app.keychain["access_token"] ?? "")
        relay.loseNextAnswer(to: "/auth/refresh")
        await #expect(throws: AppFault.notSignedIn) { _ = try await app.getCurrentUser() }
        #expect(relay.hasLostIt && app.keychain["refresh_token"] != nil)
        #expect(try await app.getCurrentUser().id == user.id)
    }

    @Test func thePasswordAppDeletesItsTokensOnlyWhenItsSessionIsOver() async throws {
        let app = PasswordApp(relay.url + "/api/v1")
        _ = try await app.register(email: "ada@example.org", password: goodPassword)
        // Elsewhere the account gets a new password, by mail; that ends every session.
        #expect(try gateway.send("POST /auth/password/forgot", #"{"email":"ada@example.org"}"#).status == 200)
        let token = try must(try gateway.message(to: "ada@example.org")["code"])
        #expect(try gateway.send("POST /auth/password/reset", #"{"token":"\#(token)","new_password":"another password"}"#).status == 200)
        await #expect(throws: AppFault.notSignedIn) { _ = try await app.getCurrentUser() }
        #expect(app.keychain.isEmpty)
        #expect((requests("/auth/refresh"), requests("/auth/me")) == (1, 1))
    }

    // MARK: provider

    @Test func theProviderAppGoesThroughItsLife() async throws {
        let app = ProviderApp(relay.url + "/whateat/api/v1")
        let token = try providers.token("apple", #"{"sub":"001.apple","email":"ada@example.org","email_verified":"true"}"#)
        let user = try await app.handleAppleSignIn(idToken: token, givenName: "Ada", familyName: nil)
        #expect(user.email == "ada@example.org")
        #expect(try await app.authenticatedRequest(relay.url + "/progress").status == 200)
        #expect(requests("/auth/refresh") == 0)

        let first = app.refreshToken
        app.expiresAt = Date()
        #expect(try await app.authenticatedRequest(relay.url + "/progress").status == 200)
        #expect(app.refreshToken != first && requests("/auth/refresh") == 1)

        let access = app.accessToken
        await app.signOut()
        #expect(app.refreshToken == nil)
        #expect(try gateway.send("GET /progress", bearer: access).status == 401)
        await #expect(throws: AppFault.notSignedIn) { _ = try await app.authenticatedRequest(relay.url + "/progress") }

        let hidden = try providers.token("apple", #"{"sub":"002.apple"}"#)
        #expect(try await app.handleAppleSignIn(idToken: hidden, givenName: nil, familyName: nil).email == nil)
    }

    @Test func aLostRefreshAnswerDoesNotSignTheProviderAppOut() async throws {
        let app = ProviderApp(relay.url + "/whateat/api/v1")
        _ = try await app.handleAppleSignIn(idToken: try providers.token("apple", #"{"sub":"001.apple"}"#), givenName: nil, familyName: nil)
        let first = app.refreshToken
        app.expiresAt = Date()
        relay.loseNextAnswer(to: "/auth/refresh")
        await #expect(throws: (any Error).self) { _ = try await app.getValidAccessToken() }
        #expect(relay.hasLostIt && app.refreshToken == first)
        #expect(try await app.authenticatedRequest(relay.url + "/progress").status == 200)
        #expect(app.refreshToken != first)
    }

    @Test func theProviderAppSignsOutWhenItsSessionIsOver() async throws {
        let app = ProviderApp(relay.url + "/whateat/api/v1")
        _ = try await app.handleAppleSignIn(idToken: try providers.token("apple", #"{"sub":"001.apple"}"#), givenName: nil, familyName: nil)
        #expect(try gateway.send("POST /whateat/api/v1/auth/signout", bearer: app.accessToken).status == 200)
        app.expiresAt = Date()
        await #expect(throws: AppFault.sessionExpired) { _ = try await app.getValidAccessToken() }
        #expect(app.accessToken == nil && app.refreshToken == nil)
    }

    // MARK: apple

    @Test func theAppleAppRegistersAndComesBack() async throws {
        let app = AppleApp(relay.url)
        let new = try await app.completed(
            identityToken: try providers.token("apple", #"{"sub":"001.apple"}"#), givenName: "Jonathan", familyName: "Lloyd")
        let known = try await app.completed(
            identityToken: try providers.token("apple", #"{"sub":"001.apple"}"#), givenName: nil, familyName: nil)
        #expect(known.userID == new.userID && known.sessionID != new.sessionID)
        #expect(abs(known.expiresAt / 1_000 - Double(unixNow) - 7 * 86_400) < 600)
        #expect(try gateway.send("GET /progress", bearer: known.token).status == 200)
        // A reinstalled app logs in to an account that was never seen.
        let unseen = try await app.completed(
            identityToken: try providers.token("apple", #"{"sub":"002.apple"}"#), givenName: nil, familyName: nil)
        #expect(unseen.userID != new.userID)
    }

    // MARK: anonymous

    @Test func theAnonymousAppGoesThroughItsLife() async throws {
        let app = AnonymousApp(relay.url)
        let user = try await app.createUser()
        #expect(try JSONDecoder().decode(Progress.self, from: try await app.authenticatedRequest(relay.url + "/progress")).progress == 7)
        try await app.requestCode("ada@example.org")
        let code = try must(try gateway.message(to: "ada@example.org")["code"])
        // The document's client sends no bearer here, and the email is nobody's yet.
        await #expect(throws: AppFault.status(401)) { _ = try await app.login(email: "ada@example.org", code: code) }
        let joined = try gateway.send(
            "POST /auth/email/verify", #"{"email":"ada@example.org","code":"\#(try newCode(after: 1))"}"#, bearer: app.sessionToken)
        #expect(joined.status == 200)
        let again = try await app.login(email: "ada@example.org", code: try newCode(after: 2))
        #expect(again.id == user && again.email == "ada@example.org")
        let actor = try await app.accessToken(actorType: "user", actorID: user)
        #expect(try gateway.send("GET /progress", bearer: actor).status == 200)
    }

    private func newCode(after count: Int) throws -> String {
        guard try gateway.send("POST /auth/email/code", #"{"email":"ada@example.org"}"#).status == 200 else { throw Fault("no code") }
        return try must(try gateway.message(to: "ada@example.org", after: count)["code"])
    }

    @Test func theAnonymousAppRefreshesAnExpiredTokenOnceAndGoesOn() async throws {
        let app = AnonymousApp(relay.url)
        _ = try await app.createUser()
        for _ in 0..<3 {
            app.sessionToken = try Self.expired(app.sessionToken ?? "")
            _ = try await app.authenticatedRequest(relay.url + "/progress")
        }
        #expect((requests("/auth/refresh"), requests("/progress")) == (3, 6))
    }

    @Test func aLostRefreshAnswerDoesNotSignTheAnonymousAppOut() async throws {
        let app = AnonymousApp(relay.url)
        let user = try await app.createUser()
        app.sessionToken = try Self.expired(app.sessionToken ?? "")
        relay.loseNextAnswer(to: "/auth/refresh")
        await #expect(throws: (any Error).self) { _ = try await app.authenticatedRequest(relay.url + "/progress") }
        #expect(relay.hasLostIt)
        _ = try await app.authenticatedRequest(relay.url + "/progress")
        #expect(try claims(of: app.sessionToken ?? "")["sub"].text == user)
        #expect((requests("/auth/refresh"), requests("/progress")) == (2, 3))
    }

    // MARK: dlauth

    @Test func theDLAuthAppGoesThroughItsLife() async throws {
        let app = DLAuthApp(relay.url)
        let metadata: [String: Any] = [
            "firstName": "John", "age": 30, "height": 1.8, "tags": ["a", "b"], "home": ["zip": "1"], "gone": NSNull(),
        ]
        let user = try await app.signUp(email: "john@example.org", password: goodPassword, metadata: metadata)
        #expect(user.metadata?["firstName"] == .text("John") && user.metadata?["tags"] == .array([.text("a"), .text("b")]))
        #expect(user.metadata?["gone"] == nil && user.metadata?.count == 5)
        // What the slip leaves of a session is the access token, under its other name.
        #expect(app.session?.accessToken == app.documented?.session.accessToken)
        #expect(app.documented?.user.emailConfirmedAt == nil)
        #expect(abs((app.documented?.session.expiresAt.timeIntervalSinceNow ?? 0) - 3_600) < 600)
        #expect(try await app.getCurrentUser().id == user.id)

        // Its app asks for the code at once, and sends it as `email`; "resend" sends another.
        let first = try must(try gateway.message(to: "john@example.org")["code"])
        try await app.resendOTP(email: "john@example.org", type: "signup")
        let code = try must(try gateway.message(to: "john@example.org", after: 1)["code"])
        await #expect(throws: AppFault.unauthorized("The code is wrong, spent or expired")) {
            _ = try await app.verifyOTP(email: "john@example.org", token: first, type: "email")
        }
        #expect(try await app.verifyOTP(email: "john@example.org", token: code, type: "email").id == user.id)
        #expect(app.documented?.user.emailConfirmedAt != nil)

        let before = app.session?.accessToken
        try await app.refreshSession()
        #expect(app.session?.accessToken != before && app.session?.user?.id == user.id)
        #expect(try await app.updatePassword("another password").id == user.id)
        #expect(try await app.getCurrentUser().id == user.id)

        let access = app.session?.accessToken
        await app.signOut()
        #expect(try gateway.send("GET /auth/user", bearer: access).status == 401)
        await #expect(throws: AppFault.unauthorized("Invalid email or password")) {
            _ = try await app.signIn(email: "john@example.org", password: goodPassword)
        }
        #expect(try await app.signIn(email: "john@example.org", password: "another password").id == user.id)
    }

    @Test func theDLAuthAppSetsAForgottenPassword() async throws {
        let app = DLAuthApp(relay.url)
        let user = try await app.signUp(email: "john@example.org", password: goodPassword, metadata: [:])
        await app.signOut()
        try await app.forgotPassword(email: "john@example.org")
        let token = try must(try gateway.message(to: "john@example.org", after: 1)["code"])
        #expect(try await app.resetPassword(token: token, newPassword: "another password").id == user.id)
        #expect(try await app.getCurrentUser().id == user.id)
        await #expect(throws: AppFault.unauthorized("The reset token is wrong, spent or expired")) {
            _ = try await app.resetPassword(token: token, newPassword: "a third password")
        }
    }

    @Test func theDLAuthAppSignsInByUsername() async throws {
        let registered = try gateway.send(
            "POST /api/v1/auth/register", #"{"email":"john@example.org","password":"\#(goodPassword)","username":"johndoe"}"#)
        #expect(registered.status == 201)
        let app = DLAuthApp(relay.url)
        #expect(try await app.signIn(username: "johndoe", password: goodPassword).email == "john@example.org")
    }

    @Test func aLostRefreshAnswerDoesNotSignTheDLAuthAppOut() async throws {
        let app = DLAuthApp(relay.url)
        let user = try await app.signUp(email: "john@example.org", password: goodPassword, metadata: [:])
        relay.loseNextAnswer(to: "/auth/token/refresh")
        await #expect(throws: (any Error).self) { try await app.refreshSession() }
        #expect(relay.hasLostIt)
        try await app.refreshSession()
        #expect(try await app.getCurrentUser().id == user.id)
    }

    // MARK: a bad line

    /// How often each app refreshes, and every how manieth answer it never hears.
    private static let refreshes = 1_000
    private static let lossInterval = 20

    /// Refreshes again and again over a line that loses answers; what gets lost, the app asks for once more.
    private func refreshOverABadLine(_ ending: String, _ refresh: () async throws -> Void) async throws {
        for number in 1...Self.refreshes {
            if number.isMultiple(of: Self.lossInterval) {
                relay.loseNextAnswer(to: ending)
                await #expect(throws: (any Error).self) { try await refresh() }
                #expect(relay.hasLostIt)
            }
            try await refresh()
        }
    }

    @Test func aThousandRefreshesOverABadLineLeaveTheProviderAppSignedIn() async throws {
        let app = ProviderApp(relay.url + "/whateat/api/v1")
        _ = try await app.handleAppleSignIn(idToken: try providers.token("apple", #"{"sub":"001.apple"}"#), givenName: nil, familyName: nil)
        try await refreshOverABadLine("/auth/refresh") {
            app.expiresAt = Date()
            _ = try await app.getValidAccessToken()
        }
        #expect(try await app.authenticatedRequest(relay.url + "/progress").status == 200)
    }

    @Test func aThousandRefreshesOverABadLineLeaveThePasswordAppSignedIn() async throws {
        let app = PasswordApp(relay.url + "/api/v1")
        let user = try await app.register(email: "ada@example.org", password: goodPassword)
        try await refreshOverABadLine("/auth/refresh") { try await app.refreshTokens() }
        #expect(try await app.getCurrentUser().id == user.id)
    }

    @Test func aThousandRefreshesOverABadLineLeaveTheDLAuthAppSignedIn() async throws {
        let app = DLAuthApp(relay.url)
        let user = try await app.signUp(email: "john@example.org", password: goodPassword, metadata: [:])
        try await refreshOverABadLine("/auth/token/refresh") { try await app.refreshSession() }
        #expect(try await app.getCurrentUser().id == user.id)
    }

    @Test func aThousandRefreshesOverABadLineLeaveTheAnonymousAppSignedIn() async throws {
        let app = AnonymousApp(relay.url)
        let user = try await app.createUser()
        try await refreshOverABadLine("/auth/refresh") { try await app.refreshTokens() }
        #expect(try claims(of: app.sessionToken ?? "")["sub"].text == user)
        _ = try await app.authenticatedRequest(relay.url + "/progress")
    }
}
