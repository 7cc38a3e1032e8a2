import Accounts
import Credentials
import Stories
import Testing
import Wire

/// The endpoints of the second factor, as apps use them.
@Suite struct FactorEndpointTests {
    private struct Answer {
        let status: Int
        let text: String
        let challenge: String
    }

    private let world: ContractWorld
    private let bearer: String

    init() async throws {
        world = try ContractWorld()
        bearer = try await Self.sign("up", world)
    }

    private static func sign(_ way: String, _ world: ContractWorld) async throws -> String {
        let body = #"{"email":"ada@example.org","password":"password123"}"#
        let answer = try await world.ask("POST", "/auth/sign\(way)", [], Array(body.utf8))
        return try member("access_token", of: String(decoding: answer.body, as: UTF8.self))
    }

    private static func member(_ name: String, of json: String) throws -> String {
        let start = try #require(json.firstRange(of: "\"\(name)\":\"")).upperBound
        return String(json[start...].prefix { $0 != "\"" })
    }

    private func ask(_ method: String, _ path: String, _ body: String = "", by other: String? = nil) async throws -> Answer {
        let answer = try await world.ask(method, "/account/factors\(path)", ["Authorization: Bearer \(other ?? bearer)"], Array(body.utf8))
        let challenge = answer.fields.first { $0.name == "WWW-Authenticate" }?.value ?? ""
        return Answer(status: answer.status, text: String(decoding: answer.body, as: UTF8.self), challenge: challenge)
    }

    private func send(_ code: String, to path: String = "/verify", by other: String? = nil) async throws -> Answer {
        try await ask("POST", path, #"{"code":"\#(code)"}"#, by: other)
    }

    /// The code of an authenticator app that was given `secret`; `steps` from now.
    private func code(_ secret: String, _ steps: Int64 = 0) -> String {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
        var (bytes, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for letter in secret.utf8 {
            (bits, count) = (bits << 5 | UInt32(letters.firstIndex(of: letter) ?? 0), count + 5)
            guard count >= 8 else { continue }
            count -= 8
            bytes.append(UInt8(truncatingIfNeeded: bits >> count))
        }
        return OneTimePassword.code(of: bytes, step: Int64(world.now) / 30 + steps)
    }

    private func enrolled(by other: String? = nil) async throws -> String {
        let secret = try Self.member("secret", of: try await ask("POST", "/totp", by: other).text)
        #expect(try await send(code(secret), to: "/totp/verify", by: other).status == 200)
        return secret
    }

    @Test func anEnrolmentEndsWithItsFirstCodeWhichProves() async throws {
        #expect(try await ask("GET", "").text == #"{"factors":[],"backup_codes":0,"proven_at":null}"#)
        for path in ["/verify", "/totp/verify"] { #expect(try await send("123456", to: path).status == 404) }
        let begun = try await ask("POST", "/totp")
        let secret = try Self.member("secret", of: begun.text)
        #expect(secret.utf8.count == 32)
        #expect(begun.text.contains(#""uri":"otpauth://totp/Example%20App:ada%40example.org?secret=\#(secret)&issuer=Example%20App""#))
        #expect(try await ask("GET", "").text.hasPrefix(#"{"factors":[],"#), "it is not there before its code")
        #expect(try await send(code(secret)).status == 401, "which is for the enrolment")
        let other = try await ask("POST", "/totp")
        #expect(try await send(code(secret), to: "/totp/verify").status == 401, "a second enrolment takes its place")
        let second = try Self.member("secret", of: other.text)
        #expect(
            try await send("\(code(second).prefix(3)) \(code(second).suffix(3))", to: "/totp/verify").text.contains(#"{"type":"totp","#))
        #expect(try await ask("GET", "").text.contains(#""proven_at":"2"#))
        #expect(try await ask("POST", "/totp").status == 409)
        try await world.wait(seconds: 601)
        let late = try await ask("POST", "/totp")
        #expect(
            late.status == 401 && late.challenge.hasSuffix(#"acr_values="urn:tollgate:acr:factor", max_age="600""#), "\(late.challenge)")
    }

    @Test func anEnrolmentLapses() async throws {
        let secret = try Self.member("secret", of: try await ask("POST", "/totp").text)
        try await world.wait(seconds: 600)
        #expect(try await send(code(secret), to: "/totp/verify").status == 401)
    }

    @Test func eachCodeCountsOnceInEverySession() async throws {
        let secret = try await enrolled()
        #expect(try await send(code(secret)).status == 401, "the code of the enrolment is spent")
        #expect(try await send(code(secret, -1)).status == 401, "one before it, too")
        #expect(try await send(code(secret, 1)).status == 200, "a step of skew")
        #expect(try await send(code(secret, 2)).status == 401)
        try await world.wait(seconds: 60)
        let other = try await Self.sign("in", world)
        #expect(try await ask("GET", "", by: other).text.contains(#""proven_at":null"#), "another session has proven nothing")
        #expect(try await send(code(secret), by: other).status == 200)
        #expect(try await send(code(secret)).status == 401)
    }

    @Test func backupCodesCountOnceAndNewOnesReplaceThem() async throws {
        #expect(try await ask("POST", "/backup-codes").status == 404)
        _ = try await enrolled()
        func make() async throws -> [String] {
            try await ask("POST", "/backup-codes").text.split(separator: "\"").map(String.init).filter { $0.utf8.count == 17 }
        }
        let old = try await make()
        let codes = try await make()
        #expect(Set(old + codes).count == 20)
        #expect(try await send(old[0]).status == 401)
        #expect(try await send(codes[0].lowercased()).text.contains(#""backup_codes":9"#))
        #expect(try await send(codes[0]).status == 401)
        try await world.wait(seconds: 600)
        #expect(try await ask("POST", "/backup-codes").challenge.contains("acr_values"))
        #expect(try await send(codes[1].replacing("-", with: "")).status == 200)
        #expect(try await ask("POST", "/backup-codes").status == 200)
    }

    @Test func aFactorIsRemovedByOneWhoHasIt() async throws {
        let secret = try await enrolled()
        let thief = try await Self.sign("in", world)
        let refused = try await ask("DELETE", "/totp", by: thief)
        #expect(refused.status == 401 && refused.challenge.contains(#"error="insufficient_user_authentication""#))
        #expect(try await ask("POST", "/backup-codes", by: thief).status == 401)
        let password = try await world.ask(
            "PUT", "/auth/password/update", ["Authorization: Bearer \(thief)"], Array(#"{"new_password":"of the thief"}"#.utf8))
        #expect(password.status == 401, "nor is a password set without it")
        for (method, path) in [("DELETE", "/account"), ("POST", "/account/identities"), ("DELETE", "/account/identities/google")] {
            let answer = try await world.ask(method, path, ["Authorization: Bearer \(thief)"], Array("{}".utf8))
            #expect(answer.status == 401, "\(method) \(path)")
        }
        try await world.wait(seconds: 60)
        #expect(try await send(code(secret), by: thief).status == 200)
        #expect(try await ask("DELETE", "/totp", by: thief).status == 204)
        #expect(try await ask("GET", "").text == #"{"factors":[],"backup_codes":0,"proven_at":null}"#)
        #expect(try await ask("DELETE", "/totp").status == 404)
    }

    /// A thief of a guest's session gives the guest no email, password, identity or passkey of the thief's.
    @Test func aGuestWithAFactorProvesItBeforeItSignsUp() async throws {
        let opened = String(decoding: try await world.ask("POST", "/auth/user", [], []).body, as: UTF8.self)
        let (guest, user) = (try Self.member("sessionToken", of: opened), try Self.member("userId", of: opened))
        let secret = try await enrolled(by: guest)
        try await world.wait(seconds: 601)
        let fields = ["Authorization: Bearer \(guest)"]
        let signUp = Array(#"{"email":"guest@example.org","password":"correct horse battery"}"#.utf8)
        for (path, body) in [
            ("/account/passkeys/registration/options", Array(#"{"contract":"dlauth"}"#.utf8)), ("/auth/signup", signUp),
            ("/api/v1/auth/register", signUp), ("/whateat/api/v1/auth/signin", Array(#"{"provider":"google","idToken":"a"}"#.utf8)),
            ("/auth/email/verify", Array(#"{"email":"guest@example.org","code":"123456"}"#.utf8)),
        ] {
            let answer = try await world.ask("POST", path, fields, body)
            let challenge = answer.fields.first { $0.name == "WWW-Authenticate" }?.value ?? ""
            #expect(answer.status == 401 && challenge.contains("acr_values"), "\(path): \(answer.status) \(challenge)")
        }
        #expect(try await send(code(secret), by: guest).status == 200)
        let joined = try await world.ask("POST", "/auth/signup", fields, signUp)
        #expect(joined.status == 200 && String(decoding: joined.body, as: UTF8.self).contains(user))
        // An account's token that is sent along with another sign-up changes nothing of it, so it needs no proof.
        try await world.wait(seconds: 601)
        let other = Array(#"{"email":"other@example.org","password":"correct horse battery"}"#.utf8)
        #expect(try await world.ask("POST", "/auth/signup", fields, other).status == 200)
    }

    /// A thief of a guest's tokens takes nothing of the guest into the thief's account.
    @Test func aGuestWithAFactorProvesItBeforeItIsMerged() async throws {
        let opened = String(decoding: try await world.ask("POST", "/auth/user", [], []).body, as: UTF8.self)
        let guest = try Self.member("sessionToken", of: opened)
        let secret = try await enrolled(by: guest)
        func merge(_ member: String) async throws -> Answer {
            let body = #"{"guest_token":"\#(try Self.member(member, of: opened))"}"#
            let answer = try await world.ask("POST", "/account/merge", ["Authorization: Bearer \(bearer)"], Array(body.utf8))
            let challenge = answer.fields.first { $0.name == "WWW-Authenticate" }?.value ?? ""
            return Answer(status: answer.status, text: String(decoding: answer.body, as: UTF8.self), challenge: challenge)
        }
        try await world.wait(seconds: 601)
        for member in ["sessionToken", "refreshToken"] {
            let refused = try await merge(member)
            #expect(refused.status == 401 && refused.challenge.contains("acr_values"), "\(member): \(refused)")
        }
        #expect(try await send(code(secret), by: guest).status == 200)
        for member in ["sessionToken", "sessionToken", "refreshToken"] {
            #expect(try await merge(member).status == 200, "once, and again")
        }
        #expect(try await ask("GET", "").text.hasPrefix(#"{"factors":[]"#), "the account keeps its own")
    }

    /// Guesses are refused before they are judged: even the right code gets nowhere. The owner's other session still has some.
    @Test func guessesOfOneSessionGetNowhere() async throws {
        let secret = try await enrolled()
        try await world.wait(seconds: 60)
        for _ in 0..<5 { #expect(try await send("000000").status == 401) }
        #expect(try await send(code(secret)).status == 429)
        let owner = try await Self.sign("in", world)
        #expect(try await send(code(secret), by: owner).status == 200)
    }
}
