import Foundation
import Glibc
import TestThreads
import Testing

/// Sessions and accounts under a running gateway: many at once, answers that get lost, a process that is killed.
@Suite(.ownThread) struct AccountEndToEndTests {
    private let gateway: Gateway

    init() throws {
        gateway = try Gateway([Gateway.contracts, Gateway.trustingProxies, "TOLLGATE_WORKERS=4"].joined(separator: "\n"))
    }

    private static let refresh = "POST /auth/token/refresh"

    private static func refreshBody(_ token: String) -> String { #"{"refresh_token":"\#(token)"}"# }

    /// The place of a token in its session's chain: the first half of its `jti`.
    private static func counter(of access: String) throws -> UInt64 {
        guard let id = bytes(base64URL: try must(claims(of: access)["jti"])), id.count == 16 else { throw Fault("no jti") }
        return id[..<8].reduce(0) { $0 << 8 | UInt64($1) }
    }

    // MARK: refreshing

    @Test func twoHundredRefreshesAtOnceAreOneStep() throws {
        let first = try gateway.signUp("ada@example.org")
        let port = gateway.port
        let answers = try atOnce(200) { _ in
            try Connection(port: port).send(Self.refresh, Self.refreshBody(first.refresh))
        }
        #expect(Set(answers.map(\.status)) == [200])
        let sessions = try answers.map { try JSON($0.text) }
        #expect(Set(sessions.map { $0["refresh_token"].text }).count == 1)
        #expect(sessions[0]["refresh_token"].text != first.refresh)
        let counters = Set(try sessions.map { try Self.counter(of: try must($0["access_token"])) })
        #expect(counters == [try Self.counter(of: first.access) + 1])
        let next = try gateway.refreshed(try must(sessions[0]["refresh_token"]))
        #expect(try Self.counter(of: next.access) == Self.counter(of: first.access) + 2)
    }

    @Test func whoseAnswerWasLostGetsTheSameSuccessor() throws {
        let first = try gateway.signUp("ada@example.org")
        let relay = try Relay(to: gateway.port)
        relay.loseNextAnswer(to: "/auth/token/refresh")
        let lost = try Connection(port: relay.port)
        #expect(throws: Fault.self) { try lost.send(Self.refresh, Self.refreshBody(first.refresh)) }
        #expect(relay.hasLostIt)
        let second = try gateway.refreshed(first.refresh)
        let again = try gateway.refreshed(first.refresh)
        #expect(second.refresh == again.refresh)
        #expect(try Self.counter(of: second.access) == Self.counter(of: first.access) + 1)
        #expect(try gateway.refreshed(second.refresh).refresh != second.refresh)
    }

    @Test func anOldTokenEndsItsSessionAndTheLogSaysSo() throws {
        let first = try gateway.signUp("ada@example.org")
        let other = try gateway.send("POST /auth/signin", credentials("ada@example.org"))
        let last = try gateway.refreshed(try gateway.refreshed(first.refresh).refresh)
        #expect(try gateway.send("GET /auth/user", bearer: last.access).status == 200)
        let reuse = try gateway.send(Self.refresh, Self.refreshBody(first.refresh))
        #expect(reuse.status == 401)
        #expect(try JSON(reuse.text)["error"].text == "invalid_token")
        for access in [first.access, last.access] {
            try eventually("its access tokens are refused", seconds: 15) {
                try gateway.send("GET /auth/user", bearer: access).status == 401
            }
        }
        #expect(try gateway.send(Self.refresh, Self.refreshBody(last.refresh)).status == 401)
        try gateway.waitForLog("a spent refresh token came back, its session has ended")
        // Another session of the account is none of its business.
        let access = try must(JSON(other.text)["session"]["access_token"])
        #expect(try gateway.send("GET /auth/user", bearer: access).status == 200)
    }

    @Test func aWildClientGetsTheSamePairAgainAndTheLogSaysSo() throws {
        var tokens: [String] = []
        // Steps are counted for ten seconds, which a busy machine may let go by.
        for number in 0..<5 {
            tokens = []
            var token = try gateway.signUp("ada\(number)@example.org").refresh
            let start = ContinuousClock.now
            for _ in 0..<14 {
                token = try gateway.refreshed(token).refresh
                tokens.append(token)
            }
            if ContinuousClock.now - start < .seconds(8) { break }
        }
        #expect(Set(tokens).count == 10)
        #expect(Set(tokens[9...]).count == 1)
        try gateway.waitForLog("repeated refresh with one token")
    }

    // MARK: tokens

    @Test func aRefreshTokenIsNoBearerAndAnAccessTokenNoRefreshToken() throws {
        let (kept, rotated) = (try gateway.register("ada@example.org"), try gateway.signUp("bob@example.org"))
        let guest = try JSON(try gateway.send("POST /auth/user").text)
        let (session, renewal) = (try must(guest["sessionToken"]), try must(guest["refreshToken"]))
        for bearer in [kept.refresh, rotated.refresh, renewal] {
            #expect(try gateway.send("GET /auth/user", bearer: bearer).status == 401)
            #expect(try gateway.send("GET /api/v1/auth/me", bearer: bearer).status == 401)
        }
        for access in [kept.access, rotated.access, session] {
            #expect(try gateway.send(Self.refresh, Self.refreshBody(access)).status == 401)
            #expect(try gateway.send("POST /api/v1/auth/refresh", #"{"refresh":"\#(access)"}"#).status == 400)
            for path in ["/auth/refresh", "/whateat/api/v1/auth/refresh"] {
                #expect(try gateway.send("POST \(path)", #"{"refreshToken":"\#(access)"}"#).status == 401)
            }
            #expect(try gateway.send("GET /auth/user", bearer: access).status == 200)
        }
    }

    /// On every worker, while many others get theirs.
    @Test func aTokenJustIssuedOpensAtOnce() throws {
        let port = gateway.port
        let statuses = try atOnce(8) { number in
            try (0..<20).flatMap { round in
                let address = "198.51.\(number).\(round)"
                let guest = try JSON(try Connection(port: port).send("POST /auth/user", from: address).text)
                let first = try Connection(port: port).send("GET /auth/user", bearer: try must(guest["sessionToken"])).status
                let body = #"{"refreshToken":"\#(try must(guest["refreshToken"]))"}"#
                let renewed = try JSON(try Connection(port: port).send("POST /auth/refresh", body).text)
                let second = try Connection(port: port).send("GET /auth/user", bearer: try must(renewed["sessionToken"])).status
                return [first, second]
            }
        }
        #expect(Set(statuses.joined()) == [200])
    }

    @Test func whoSignsOutIsRefusedByEveryWorkerWithinASecond() throws {
        let tokens = try gateway.signUp("ada@example.org")
        let connections = try (0..<24).map { _ in try gateway.connect() }
        for connection in connections { #expect(try connection.send("GET /auth/user", bearer: tokens.access).status == 200) }
        #expect(try gateway.send("POST /auth/signout", bearer: tokens.access).status == 200)
        // Its refresh token is dead at once.
        #expect(try gateway.send(Self.refresh, Self.refreshBody(tokens.refresh)).status == 401)
        try eventually("every worker refuses its access token", seconds: 15) {
            try connections.allSatisfy { try $0.send("GET /auth/user", bearer: tokens.access).status == 401 }
        }
    }

    // MARK: registering

    @Test func ofFiftyWhoRegisterOneEmailAtOnceOneSucceeds() throws {
        let port = gateway.port
        let answers = try atOnce(50) { number in
            let body = credentials(number % 2 == 0 ? "ada@example.org" : "ADA@Example.org")
            return try askingAgain(whileFull: "POST /api/v1/auth/register", body, port: port)
        }
        #expect(answers.count { $0.status == 201 } == 1)
        let refusals = answers.filter { $0.status != 201 }
        #expect(
            refusals.allSatisfy { $0.status == 400 && $0.text.contains("User with this email already exists") }, "\(refusals.map(\.status))"
        )
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200)
    }

    /// Who was being registered when the gateway was told to end hears of it.
    @Test func aGatewayThatEndsAnswersWhomItHasHeard() throws {
        let gateway = try Gateway(Gateway.contracts)
        // Few, because a password waits ten seconds at most for those before it, which a busy machine takes for more.
        let connections = try (0..<3).map { _ in try gateway.connect() }
        for (number, connection) in connections.enumerated() {
            let body = credentials("u\(number)@example.org")
            try connection.send(Array((requestHead("POST /api/v1/auth/register", length: body.utf8.count) + body).utf8))
        }
        // Once one is answered all have come: hashing one password takes longer than reading three requests.
        #expect(try connections[0].answer(to: "POST").status == 201)
        gateway.process.signal(SIGTERM)
        for connection in connections.dropFirst() {
            let answer = try connection.answer(to: "POST")
            #expect(answer.status == 201, "\(answer)")
        }
        #expect(try gateway.process.exitCode() == 0)
    }

    /// What was answered before the process was killed is there when it runs again: accounts, and the last pair of each
    /// session.
    @Test func whatWasAcknowledgedOutlivesAKill() throws {
        struct Known: Sendable { var accounts: [PasswordTokens] = [], sessions: [Int: RotatedTokens] = [:] }
        let known = Watched(Known())
        let folder = gateway.folder
        let (port, process) = (gateway.port, gateway.process)
        let first = try (0..<4).map { try gateway.signUp("s\($0)@example.org") }
        let workers = (0..<4).map { number in
            Background<Void> {
                // Ends with the process: a connection that breaks is no fault here.
                let connection = try Connection(port: port)
                var (session, count) = (first[number], 0)
                while true {
                    count += 1
                    let answer = try connection.send("POST /api/v1/auth/register", credentials("u\(number).\(count)@example.org"))
                    guard answer.status == 201 else { throw Fault("\(answer.text)") }
                    let body = try JSON(answer.text)
                    let tokens = PasswordTokens(
                        user: try must(body["user"]["id"]), access: try must(body["tokens"]["access"]),
                        refresh: try must(body["tokens"]["refresh"]))
                    known.change { $0.accounts.append(tokens) }
                    let refreshed = try connection.send(Self.refresh, Self.refreshBody(session.refresh))
                    guard refreshed.status == 200 else { throw Fault("\(refreshed.text)") }
                    let pair = try JSON(refreshed.text)
                    session = RotatedTokens(access: try must(pair["access_token"]), refresh: try must(pair["refresh_token"]))
                    known.change { [session] in $0.sessions[number] = session }
                }
            }
        }
        try known.wait(for: "registrations", seconds: 60) { $0.accounts.count >= 24 && $0.sessions.count == 4 }
        process.kill()
        for worker in workers { #expect(throws: Fault.self) { try worker.value() } }
        let acknowledged = known.now

        let second = try Gateway(Gateway.contracts, folder: folder)
        for account in acknowledged.accounts {
            let me = try second.send("GET /api/v1/auth/me", bearer: account.access)
            #expect(me.status == 200 && me.text.contains(account.user))
            #expect(try second.send("POST /api/v1/auth/refresh", #"{"refresh":"\#(account.refresh)"}"#).status == 200)
        }
        for session in acknowledged.sessions.values { _ = try second.refreshed(session.refresh) }
        let login = try second.send("POST /api/v1/auth/login", credentials("u0.1@example.org"))
        #expect(login.status == 200)
    }

    /// Whether the contracts are there from the start or mounted by a reload.
    @Test(arguments: [Gateway.contracts, "TOLLGATE_CONTRACTS="])
    func whatEndedBeforeARestartStaysEnded(_ contracts: String) throws {
        let tokens = try gateway.signUp("ada@example.org")
        let other = try gateway.signUp("bob@example.org")
        #expect(try gateway.send("POST /auth/signout", bearer: tokens.access).status == 200)
        try gateway.stop()
        let second = try Gateway(contracts, folder: gateway.folder)
        try second.reload(Gateway.contracts)
        #expect(try second.send("GET /auth/user", bearer: tokens.access).status == 401)
        #expect(try second.send("GET /auth/user", bearer: other.access).status == 200)
    }

    // MARK: providers

    /// Keys that cannot be had at first, and that the provider exchanges later: whoever has a good token gets in.
    @Test func aProvidersKeysAreFollowed() throws {
        let (first, second) = (try IssuerKey(.es256, kid: "k1"), try IssuerKey(.es256, kid: "k2"))
        let sets = [try keySet(first), try keySet(second)]
        let place = Watched<Int?>(nil)
        let server = try Upstream { _, connection in
            guard let place = place.now else {
                return try connection.send("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
            }
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \(sets[place].utf8.count)\r\n\r\n\(sets[place])")
        }
        let gateway = try Gateway(
            [Gateway.contracts, "TOLLGATE_PROVIDER_APPLE=\"client-ids=com.example.app jwks=\(server.url)/keys\""].joined(separator: "\n"))
        func signIn(_ key: IssuerKey) throws -> Message {
            let claims = #"{"iss":"https://appleid.apple.com","aud":"com.example.app","sub":"1","iat":\#(unixNow),"exp":\#(unixNow + 600)}"#
            return try gateway.send("POST /whateat/api/v1/auth/signin", #"{"provider":"apple","idToken":"\#(try key.token(claims))"}"#)
        }
        let early = try signIn(first)
        #expect(early.status == 500)
        #expect(try JSON(early.text)["code"].text == "AUTH_SERVICE_ERROR")
        place.change { $0 = 0 }
        try eventually("the keys are there") { try signIn(first).status == 200 }
        place.change { $0 = 1 }
        try eventually("the new key is there") { try signIn(second).status == 200 }
        #expect(try signIn(first).status == 401)
    }

    // MARK: what strangers learn

    @Test func nobodyLearnsWhetherAnEmailHasAnAccount() throws {
        _ = try gateway.register("known@example.org")
        let questions = [
            ("POST /api/v1/auth/login", #"{"email":"@@","password":"not the password"}"#, 401),
            ("POST /auth/signin", #"{"email":"@@","password":"not the password"}"#, 401),
            ("POST /auth/otp/resend", #"{"email":"@@","type":"email"}"#, 200),
            ("POST /auth/otp/resend", #"{"email":"@@","type":"recovery"}"#, 200),
            ("POST /auth/password/forgot", #"{"email":"@@"}"#, 200),
            ("POST /auth/otp/verify", #"{"email":"@@","type":"email","token":"12345x"}"#, 401),
            ("POST /auth/email/verify", #"{"email":"@@","code":"12345x"}"#, 401),
        ]
        for (request, body, status) in questions {
            let answers = try ["known@example.org", "unknown@example.org"].map {
                try gateway.send(request, body.replacingOccurrences(of: "@@", with: $0))
            }
            #expect(answers.map(\.status) == [status, status], "\(request)")
            #expect(answers[0].body == answers[1].body, "\(request)")
            #expect(answers[0].fields.map(\.name) == answers[1].fields.map(\.name), "\(request)")
        }
    }

    /// The same work, by the processor time that the gateway spends: no load of this machine changes that much.
    @Test func aPasswordIsHashedForAnUnknownEmailToo() throws {
        _ = try gateway.register("known@example.org")
        func spent(_ email: String) throws -> Int {
            let before = try gateway.processorTicks
            for _ in 0..<10 {
                let answer = try gateway.send("POST /api/v1/auth/login", credentials(email, "not the password"))
                #expect(answer.status == 401)
            }
            return try gateway.processorTicks - before
        }
        let (known, unknown) = (try spent("known@example.org"), try spent("unknown@example.org"))
        #expect(unknown * 2 > known && known * 2 > unknown, "\(known) ticks for a known email, \(unknown) for an unknown one")
    }

    // MARK: brute force

    private static func expectTooMany(_ answer: Message, _ code: JSON) throws {
        #expect(code.text?.uppercased() == "RATE_LIMITED")
        guard let seconds = answer["Retry-After"].flatMap({ Int($0) }) else { throw Fault("no Retry-After: \(answer)") }
        #expect(seconds > 0)
    }

    /// Guesses with the numbers from there on until it is stopped, or too many were not.
    private func guess(after count: inout Int, most: Int, _ wrong: (Int) throws -> Message) throws -> Message {
        while true {
            count += 1
            let answer = try wrong(count)
            if answer.status != 401 || count > most { return answer }
        }
    }

    @Test func whoGuessesAtOneAccountIsStopped() throws {
        let victim = try gateway.register("ada@example.org", from: "192.0.2.1")
        var count = 0
        // From everywhere: it is the account that counts.
        let wrong = { (number: Int) throws -> Message in
            let guess = credentials(number == 1 ? "ada@example.org" : "Ada@example.org", "wrong guess")
            return try gateway.send("POST /api/v1/auth/login", guess, from: "198.51.100.\(number)")
        }
        let last = try guess(after: &count, most: 60, wrong)
        #expect(last.status == 429)
        #expect((7...60).contains(count))
        try Self.expectTooMany(last, JSON(last.text)["error"]["code"])
        var other = try gateway.send("POST /auth/signin", credentials("ada@example.org"), from: "192.0.2.3")
        // On a busy machine one guess may have become free since the last one.
        for number in 4..<8 where other.status == 200 {
            _ = try guess(after: &count, most: 60, wrong)
            other = try gateway.send("POST /auth/signin", credentials("ada@example.org"), from: "192.0.2.\(number)")
        }
        #expect(other.status == 429)
        try Self.expectTooMany(other, JSON(other.text)["error"])
        // Who is signed in notices nothing of it.
        #expect(try gateway.send("GET /api/v1/auth/me", bearer: victim.access, from: "192.0.2.1").status == 200)
        #expect(try gateway.send("POST /api/v1/auth/refresh", #"{"refresh":"\#(victim.refresh)"}"#, from: "192.0.2.1").status == 200)
    }

    @Test func whoGuessesAtManyAccountsIsStopped() throws {
        let owner = try gateway.signUp("ada@example.org", from: "192.0.2.1")
        var count = 0
        let wrong = { (number: Int) throws -> Message in
            try gateway.send("POST /auth/email/verify", #"{"email":"u\#(number)@example.org","code":"000000"}"#, from: "192.0.2.1")
        }
        let last = try guess(after: &count, most: 200, wrong)
        #expect(last.status == 429)
        #expect((7...200).contains(count))
        try Self.expectTooMany(last, JSON(last.text)["error"]["code"])
        var login = try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "192.0.2.1")
        // One guess becomes free every two seconds: it may have been before this one.
        for _ in 0..<10 where login.status == 200 {
            _ = try guess(after: &count, most: 400, wrong)
            login = try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "192.0.2.1")
        }
        #expect(login.status == 429)
        // A refresh token that holds is never refused for it, and other addresses are others.
        let refreshed = try gateway.send(Self.refresh, Self.refreshBody(owner.refresh), from: "192.0.2.1")
        #expect(refreshed.status == 200)
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "192.0.2.2").status == 200)
    }

    @Test func sixWrongGuessesInARowAndThreeCodesStillPass() throws {
        _ = try gateway.register("ada@example.org")
        for _ in 0..<6 {
            #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org", "wrong guess")).status == 401)
        }
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org")).status == 200)
        for count in 0..<3 {
            #expect(try gateway.send("POST /auth/otp/resend", #"{"email":"ada@example.org","type":"email"}"#).status == 200)
            _ = try gateway.message(to: "ada@example.org", after: count)
        }
        let code = try must(try gateway.message(to: "ada@example.org", after: 2)["code"])
        let body = #"{"email":"ada@example.org","type":"email","token":"\#(code)"}"#
        #expect(try gateway.send("POST /auth/otp/verify", body).status == 200)
    }

    // MARK: secrets

    /// Neither log holds a password, a token or a code, whatever happened.
    @Test func noSecretIsLogged() throws {
        let tokens = try gateway.signUp("ada@example.org")
        let next = try gateway.refreshed(tokens.refresh)
        _ = try gateway.send("POST /auth/signin", credentials("ada@example.org", "not the password"))
        _ = try gateway.send("GET /auth/user?token=\(next.access)", bearer: next.access)
        _ = try gateway.send("POST /auth/password/forgot", #"{"email":"ada@example.org"}"#)
        let reset = try must(try gateway.message(to: "ada@example.org", after: 1)["code"])
        _ = try gateway.send("POST /auth/password/reset", #"{"token":"\#(reset)","new_password":"another password"}"#)
        _ = try gateway.refreshed(try gateway.signUp("bob@example.org").refresh)
        _ = try gateway.send(Self.refresh, Self.refreshBody(tokens.refresh))
        let (output, complaints) = (gateway.process.output, gateway.process.complaints)
        try gateway.stop()
        let log = (output.now + complaints.now).joined(separator: "\n")
        #expect(log.contains("/auth/password/reset"))
        for secret in [
            tokens.access, tokens.refresh, next.access, next.refresh, reset, goodPassword, "not the password", "another password",
        ] {
            #expect(!log.contains(secret))
        }
    }
}
