import Foundation
import TestThreads
import Testing

/// Limits on guesses, messages and new accounts, under five hundred attempts at once.
@Suite(.serialized, .ownThread) struct AttemptLimitTests {
    /// Where the gateways of a test count.
    enum Counting: CaseIterable { case alone, withRedis, twoWithRedis, redisGone }

    private static let settings = [
        Gateway.contracts, Gateway.trustingProxies, "TOLLGATE_WORKERS=2", "TOLLGATE_ACCESS_LOG=off",
        "TOLLGATE_JWT_SECRET=two gateways sign with one secret",
        Redis.patience,
    ]

    /// Gateways that have one database and one Redis in common; ended with their owner.
    private final class House {
        private let redis: Redis?
        private let folder: Folder
        let gateways: [Gateway]

        init(_ counting: Counting, _ more: String...) throws {
            let redis = counting == .alone ? nil : try Redis()
            let folder = try Folder()
            (self.redis, self.folder) = (redis, folder)
            let lines = AttemptLimitTests.settings + more + (redis.map { [$0.setting] } ?? [])
            gateways = try (0..<(counting == .twoWithRedis ? 2 : 1)).map { number in
                let database = "DATABASE_URL=sqlite://\(folder.file("accounts.db"))"
                return try Gateway((lines + [database]).joined(separator: "\n"))
            }
            guard let redis else { return }
            for gateway in gateways {
                try eventually("redis is ready") { try gateway.askAdmin("/readyz").text.contains(#""redis","status":"ready""#) }
            }
            if counting == .redisGone { redis.kill() }
        }
    }

    private struct Attempt {
        var line: String
        var json: String?
        var bearer: String?
        var address: String
    }

    /// Sends five hundred requests, each over a connection of its own and spread over the gateways, before it reads an
    /// answer. Answers the statuses, how long it took, and the refusals.
    private func flood(
        _ house: House, _ attempt: (Int) -> Attempt
    ) throws -> (statuses: [Int: Int], seconds: Double, refusals: [Message]) {
        let start = ContinuousClock.now
        let connections = try (0..<500).map { try house.gateways[$0 % house.gateways.count].connect() }
        for (number, connection) in connections.enumerated() {
            let attempt = attempt(number)
            var fields = ["X-Forwarded-For: \(attempt.address)"]
            if let bearer = attempt.bearer { fields.append("Authorization: Bearer \(bearer)") }
            let body = Array((attempt.json ?? "").utf8)
            fields += ["Content-Type: application/json", "Content-Length: \(body.count)"]
            try connection.send(Array(requestHead(attempt.line, fields).utf8) + body)
        }
        let answers = try connections.map { connection in
            connection.setTimeout(seconds: 60)
            return try connection.answer()
        }
        let seconds = Double((ContinuousClock.now - start).components.seconds + 1)
        let statuses = Dictionary(answers.map { ($0.status, 1) }, uniquingKeysWith: +)
        return (statuses, seconds, answers.filter { $0.status == 429 })
    }

    /// Whether of five hundred the burst and what refilled meanwhile got this status, and all others 429 as it should be.
    private func expect(
        _ outcome: (statuses: [Int: Int], seconds: Double, refusals: [Message]), _ status: Int, burst: Int, perHour: Double,
        code: String = "RATE_LIMITED"
    ) throws {
        let passed = outcome.statuses[status] ?? 0
        let refilled = Int(outcome.seconds * perHour / 3_600) + 1
        #expect((burst...burst + refilled).contains(passed), "\(outcome.statuses) in \(outcome.seconds) s")
        #expect(passed + outcome.refusals.count == 500, "\(outcome.statuses)")
        for refusal in outcome.refusals {
            #expect((Int(refusal["Retry-After"] ?? "") ?? 0) >= 1)
            let body = try JSON(refusal.text)
            #expect(body["error"]["code"].text == code || body["error"].text == code, "\(refusal.text)")
        }
    }

    private static func address(_ number: Int) -> String { "10.1.\(number / 250).\(number % 250)" }

    // MARK: messages

    @Test(arguments: Counting.allCases)
    func mailsToOneRecipient(_ counting: Counting) throws {
        let house = try House(counting)
        let outcome = try flood(house) { number in
            Attempt(line: "POST /auth/email/code", json: #"{"email":"ada@example.org"}"#, address: Self.address(number))
        }
        try expect(outcome, 200, burst: 6, perHour: 12)
    }

    @Test(arguments: [Counting.alone, .withRedis])
    func mailsThatOneAddressAsksFor(_ counting: Counting) throws {
        let house = try House(counting)
        let outcome = try flood(house) { number in
            Attempt(line: "POST /auth/email/code", json: #"{"email":"user\#(number)@example.org"}"#, address: "10.1.2.3")
        }
        try expect(outcome, 200, burst: 100, perHour: 1_800)
    }

    @Test(arguments: Counting.allCases)
    func messagesByPhoneToAnybody(_ counting: Counting) throws {
        let house = try House(counting, "TOLLGATE_SMS_BUDGET=20/h")
        let access = try house.gateways[0].signUp("ada@example.org", from: "192.0.2.1").access
        let outcome = try flood(house) { number in
            Attempt(
                line: "POST /auth/otp/resend", json: #"{"type":"phone_change","phone":"+49151\#(1_000_000 + number)"}"#,
                bearer: access, address: Self.address(number))
        }
        try expect(outcome, 200, burst: 20, perHour: 20, code: "rate_limited")
        let refused = try house.gateways.map { try $0.metric("tollgate_attempts_refused_total", #"bucket="sms-budget""#) }
        #expect(refused.reduce(0, +) == Double(outcome.refusals.count))
        for gateway in house.gateways {
            try gateway.waitForLog("the budget for SMS is spent")
            #expect(gateway.process.complaints.now.count { $0.contains("the budget for SMS is spent") } == 1)
        }
    }

    // MARK: accounts

    @Test(arguments: Counting.allCases)
    func accountsThatOneAddressOpens(_ counting: Counting) throws {
        let house = try House(counting)
        let outcome = try flood(house) { _ in Attempt(line: "POST /auth/user", address: "10.1.2.3") }
        try expect(outcome, 200, burst: 100, perHour: 300)
        #expect(try house.gateways[0].send("POST /auth/signup", credentials("bob@example.org"), from: "10.1.2.4").status == 200)
    }

    /// Of one address, and of a /64.
    @Test func accountsOfAllContractsAreOneCount() throws {
        let gateway = try Gateway((Self.settings + ["TOLLGATE_SIGNUP_LIMIT=1/h+burst=3"]).joined(separator: "\n"))
        let from = ["2001:db8::1", "2001:db8::2", "2001:db8:0:0:1::9", "2001:db8::7"]
        #expect(try gateway.send("POST /api/v1/auth/register", credentials("a@example.org"), from: from[0]).status == 201)
        // Nothing is opened by a second try with the same email, and nothing is charged for it.
        #expect(try gateway.send("POST /api/v1/auth/register", credentials("a@example.org"), from: from[0]).status == 400)
        #expect(try gateway.send("POST /auth/signup", credentials("b@example.org"), from: from[1]).status == 200)
        #expect(try gateway.send("POST /auth/user", from: from[2]).status == 200)
        let late = [
            try gateway.send("POST /api/v1/auth/register", credentials("c@example.org"), from: from[3]),
            try gateway.send("POST /auth/signup", credentials("d@example.org"), from: from[0]),
            try gateway.send("POST /auth/user", from: from[1]),
        ]
        #expect(late.map(\.status) == [429, 429, 429])
        #expect(late.allSatisfy { (Int($0["Retry-After"] ?? "") ?? 0) > 3_500 })
        // Who has an account is no less welcome.
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("a@example.org"), from: from[0]).status == 200)
        #expect(try gateway.send("POST /auth/user", from: "2001:db8:0:1::1").status == 200)
    }

    @Test func aReloadTakesOtherLimitsOver() throws {
        let settings = Self.settings.joined(separator: "\n")
        let gateway = try Gateway(settings + "\nTOLLGATE_SIGNUP_LIMIT=1/h")
        func open() throws -> Int { try gateway.send("POST /auth/user", from: "10.1.2.3").status }
        #expect(try [open(), open()] == [200, 429])
        try gateway.reload(settings + "\nTOLLGATE_SIGNUP_LIMIT=2/h")
        #expect(try [open(), open(), open()] == [200, 200, 429])
    }

    // MARK: guesses

    @Test(arguments: Counting.allCases)
    func wrongCodesOfOneAccountFromManyAddresses(_ counting: Counting) throws {
        let house = try House(counting)
        let outcome = try flood(house) { number in
            Attempt(
                line: "POST /auth/email/verify", json: #"{"email":"ada@example.org","code":"000000"}"#, address: Self.address(number))
        }
        try expect(outcome, 401, burst: 50, perHour: 240)
    }

    @Test(arguments: [Counting.alone, .withRedis])
    func wrongCodesOfManyAccountsFromOneAddress(_ counting: Counting) throws {
        let house = try House(counting)
        let outcome = try flood(house) { number in
            Attempt(
                line: "POST /auth/email/verify", json: #"{"email":"user\#(number)@example.org","code":"000000"}"#, address: "10.1.2.3")
        }
        try expect(outcome, 401, burst: 150, perHour: 1_800)
    }

    /// More of them than an account has wrong guesses.
    @Test(arguments: [Counting.alone, .twoWithRedis])
    func rightPasswordsCostNothing(_ counting: Counting) throws {
        let house = try House(counting)
        _ = try house.gateways[0].register("ada@example.org", from: "192.0.2.1")
        for number in 0..<36 {
            let gateway = house.gateways[number % house.gateways.count]
            let answer = try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "192.0.2.1")
            #expect(answer.status == 200, "\(number): \(answer.text)")
        }
        let refused = try house.gateways.map { try $0.metric("tollgate_attempts_refused_total", #"bucket="account-failures""#) }
        #expect(refused.reduce(0, +) == 0)
    }

    /// One who guesses keeps nobody out but themselves.
    @Test(arguments: [Counting.alone, .withRedis])
    func theOwnerSignsInWhileTheAccountIsAttacked(_ counting: Counting) throws {
        let house = try House(counting)
        let gateway = house.gateways[0]
        _ = try gateway.register("ada@example.org", from: "192.0.2.1")
        let wrong = credentials("ada@example.org", "a wrong password")
        let outcome = try flood(house) { _ in Attempt(line: "POST /api/v1/auth/login", json: wrong, address: "10.1.2.3") }
        // Those that were admitted together, and two of the guesses that strangers may begin with. A busy machine may be too late to
        // check some of them.
        #expect((30...34).contains((outcome.statuses[401] ?? 0) + (outcome.statuses[503] ?? 0)), "\(outcome.statuses)")
        var status = 0
        // What was not checked, and what became free meanwhile, is used up first.
        for _ in 0..<40 where status != 429 { status = try gateway.send("POST /api/v1/auth/login", wrong, from: "10.1.2.3").status }
        #expect(status == 429)
        for address in ["192.0.2.1", "198.51.100.7"] {
            #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: address).status == 200)
        }
        // Many addresses together keep out those that the account does not know.
        status = 0
        // On a busy machine one guess may have become free by the end.
        for number in 5..<10 where status != 429 {
            _ = try flood(house) {
                Attempt(line: "POST /auth/email/verify", json: #"{"email":"ada@example.org","code":"0"}"#, address: Self.address($0))
            }
            status = try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "203.0.113.\(number)").status
        }
        #expect(status == 429)
        #expect(try gateway.send("POST /api/v1/auth/login", credentials("ada@example.org"), from: "192.0.2.1").status == 200)
    }
}
