import Accounts
import Contracts
import Foundation
import Gate
import MemoryStore
import Storage
import Stories
import Testing
import Wire

@testable import Credentials

/// An app with the key of its device.
struct Device {
    private let key: SigningKey

    init() throws { key = try SigningKey.generate(.ES256) }

    var thumbprint: String { RequiredMembers(key.verificationKey.material)?.thumbprint ?? "" }

    /// The field with a proof for a `POST` to this path.
    func proof(
        _ path: String, at now: Int, id: String = Foundation.UUID().uuidString, base: String = "http://gate.test", nonce: String = ""
    ) throws -> String {
        var header = JSONWriter()
        header.beginObject()
        header.field("typ", "dpop+jwt" as StaticString)
        header.field("alg", "ES256" as StaticString)
        header.key("jwk" as StaticString)
        header.beginObject()
        RequiredMembers(key.verificationKey.material)?.write(to: &header)
        header.endObject()
        header.endObject()
        let claims = Array(#"{"jti":"\#(id)","htm":"POST","htu":"\#(base)\#(path)","iat":\#(now),"nonce":"\#(nonce)"}"#.utf8)
        let head = header.finish()
        let signed = try key.sign(claims.rawBytes, header: head.readable)
        return "DPoP: " + signed.rawBytes.text
    }
}

/// Sessions that are bound to the key of a device, at the endpoints of every contract.
@Suite struct DeviceKeyTests {
    private let store = MemoryStore()
    private let world: ContractWorld
    private let device: Device
    private let thief: Device

    init() throws {
        world = try ContractWorld(accounts: store)
        (device, thief) = (try Device(), try Device())
    }

    /// The endpoints of a contract that open and refresh sessions.
    private struct App: CustomTestStringConvertible {
        let contract: ContractID
        let opening: String
        var status = 401
        var refreshing = ""
        var member = ""
        var refreshStatus = 401
        var testDescription: String { contract.name }

        func body(_ world: ContractWorld, _ user: String) async throws -> String {
            let google = #"{"sub":"\#(user)","email":"\#(user)@example.org","email_verified":true}"#
            return switch contract {
            case .provider: #"{"provider":"google","idToken":"\#(try await world.idToken("google", google))"}"#
            case .apple: #"{"idToken":"\#(try await world.idToken("apple", google))"}"#
            case .password, .dlauth: #"{"email":"\#(user)@example.org","password":"correct horse"}"#
            case .anonymous: ""
            }
        }
    }

    private static let apps = [
        App(
            contract: .password, opening: "/api/v1/auth/register", status: 400, refreshing: "/api/v1/auth/refresh", member: "refresh",
            refreshStatus: 400),
        App(
            contract: .provider, opening: "/whateat/api/v1/auth/signin", refreshing: "/whateat/api/v1/auth/refresh",
            member: "refreshToken"),
        App(contract: .apple, opening: "/login"),
        App(contract: .dlauth, opening: "/auth/signup", status: 400, refreshing: "/auth/token/refresh", member: "refresh_token"),
        App(contract: .anonymous, opening: "/auth/user", status: 400, refreshing: "/auth/refresh", member: "refreshToken"),
    ]

    /// An answer: its status, and the code or the key of its access token.
    private struct Outcome {
        let text: String
        let refresh: String
        let access: String
        let challenge: String

        init(_ answer: StoryAnswer) throws {
            var found: [String: String] = [:]
            func collect(_ object: [String: Any]) {
                for (name, value) in object {
                    if let text = value as? String { found[name] = text }
                    if let object = value as? [String: Any] { collect(object) }
                }
            }
            collect(try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any] ?? [:])
            refresh = found["refresh"] ?? found["refreshToken"] ?? found["refresh_token"] ?? ""
            access = found["access"] ?? found["accessToken"] ?? found["access_token"] ?? found["sessionToken"] ?? found["token"] ?? ""
            challenge = answer.fields.first { $0.name == "WWW-Authenticate" }?.value ?? ""
            let payload = access.split(separator: ".").dropFirst().first.map(String.init) ?? ""
            let claims = payload.isEmpty ? nil : payload.withRawBytes { Base64URL.decode($0) }.map { Data($0) }
            let token = try claims.map { try JSONSerialization.jsonObject(with: $0) as? [String: Any] ?? [:] }
            let key = (token?["cnf"] as? [String: String])?["jkt"]
            let isFault = answer.status >= 400
            text = "\(answer.status) " + (isFault ? (found["code"] ?? found["error"] ?? "").uppercased() : key ?? "unbound")
        }
    }

    private func open(_ app: App, _ user: String, _ fields: [String], _ world: ContractWorld? = nil) async throws -> Outcome {
        let world = world ?? self.world
        return try Outcome(await world.ask("POST", app.opening, fields, Array(try await app.body(world, user).utf8)))
    }

    private func refresh(_ app: App, _ token: String, _ fields: [String], _ world: ContractWorld? = nil) async throws -> Outcome {
        try Outcome(await (world ?? self.world).ask("POST", app.refreshing, fields, Array(#"{"\#(app.member)":"\#(token)"}"#.utf8)))
    }

    @Test(arguments: apps)
    private func aProofAtTheSignInBindsTheSessionAndOneThatIsNoneOpensNone(_ app: App) async throws {
        let (invalid, bound) = ("\(app.status) DEVICE_PROOF_INVALID", "200 \(device.thumbprint)")
        let proof = try device.proof(app.opening, at: world.now)
        let faulty = [
            ["DPoP: x"], ["DPoP: \(String(repeating: "x", count: 5_000))"], [proof, proof], [proof + "A"],
            [try device.proof(app.opening, at: world.now - 70)], [try device.proof(app.opening, at: world.now + 70)],
            [try device.proof(app.opening + "x", at: world.now)], [try device.proof(app.opening, at: world.now, base: "http://other.test")],
            ["X-Forwarded-Host: other.test", try device.proof(app.opening, at: world.now, base: "http://other.test")],
        ]
        for fields in faulty { #expect(try await open(app, "ada", fields).text == invalid, "\(fields)") }
        let opened = try await open(app, "ada", [proof])
        #expect(opened.text.replacing("201", with: "200") == bound)
        // The proof is spent, also for another user.
        let again = try await open(app, "bob", [proof])
        #expect(again.text == invalid && again.challenge.hasPrefix("DPoP realm=\"tollgate\", error=\"invalid_dpop_proof\""))
        let public_ = try await open(app, "bob", [try device.proof(app.opening, at: world.now, base: "https://public.test/api")])
        #expect(public_.text.replacing("201", with: "200") == bound)
        #expect(try await open(app, "eve", []).text.hasSuffix("unbound"))
    }

    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func aBoundSessionIsRefreshedByItsKeyAlone(_ app: App) async throws {
        let path = app.refreshing
        var token = try await open(app, "ada", [try device.proof(app.opening, at: world.now)]).refresh
        let (missing, other) = ("\(app.refreshStatus) DEVICE_PROOF_REQUIRED", "\(app.refreshStatus) DEVICE_PROOF_INVALID")
        // A proof that can be made anew is no reason to sign out.
        let anew = "400 DEVICE_PROOF_INVALID"
        let spent = try device.proof(path, at: world.now)
        let first = try await refresh(app, token, [spent])
        #expect(first.text == "200 \(device.thumbprint)")
        let before = token
        if !first.refresh.isEmpty { token = first.refresh }
        for held in [before, token] {
            let tries: [(String, [String])] = [
                (missing, []), (other, [try thief.proof(path, at: world.now)]), (anew, [try device.proof(path, at: world.now - 70)]),
                (anew, [spent]), (anew, ["DPoP: x"]),
            ]
            for (expected, fields) in tries { #expect(try await refresh(app, held, fields).text == expected, "\(fields)") }
        }
        // The answer was lost: the same pair comes again.
        let again = try await refresh(app, before, [try device.proof(path, at: world.now)])
        #expect(again.text == "200 \(device.thumbprint)" && again.refresh == first.refresh)
        // A thief without the key sends spent tokens for days, and ends nothing.
        _ = try await refresh(app, token, [try device.proof(path, at: world.now)])
        try await world.wait(seconds: 86_400)
        for _ in 0..<1_000 { #expect(try await refresh(app, before, []).text == missing) }
        #expect(try await refresh(app, token, [try device.proof(path, at: world.now)]).text == "200 \(device.thumbprint)")
    }

    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func anOpenSessionIsBoundAtItsNextRefresh(_ app: App) async throws {
        var token = try await open(app, "ada", []).refresh
        for fields in [[], [try device.proof(app.refreshing, at: world.now)]] {
            let answer = try await refresh(app, token, fields)
            #expect(answer.text == "200 \(fields.isEmpty ? "unbound" : device.thumbprint)")
            if !answer.refresh.isEmpty { token = answer.refresh }
        }
        #expect(try await refresh(app, token, []).text == "\(app.refreshStatus) DEVICE_PROOF_REQUIRED")
        // By OAuth, too.
        func oauth(_ fields: [String]) async throws -> String {
            try Outcome(await world.ask("POST", "/oauth/token", fields, Array("grant_type=refresh_token&refresh_token=\(token)".utf8))).text
        }
        #expect(try await oauth([]) == "400 INVALID_DPOP_PROOF")
        #expect(try await oauth([try thief.proof("/oauth/token", at: world.now)]) == "400 INVALID_DPOP_PROOF")
        #expect(try await oauth([try device.proof("/oauth/token", at: world.now)]) == "200 \(device.thumbprint)")
    }

    @Test(arguments: apps)
    private func whereKeysAreRequiredNothingIsOpenedWithoutOne(_ app: App) async throws {
        let strict = try ContractWorld(accounts: store, policies: policies(.required))
        #expect(try await open(app, "ada", [], strict).text == "\(app.status) DEVICE_PROOF_REQUIRED")
        let opened = try await open(app, "ada", [try device.proof(app.opening, at: strict.now)], strict)
        #expect(opened.text.hasSuffix(device.thumbprint), "nothing was opened before")
        guard !app.refreshing.isEmpty else { return }
        let old = try await open(app, "bob", []).refresh
        #expect(try await refresh(app, old, [], strict).text == "\(app.refreshStatus) DEVICE_PROOF_REQUIRED")
        #expect(try await refresh(app, old, [try device.proof(app.refreshing, at: strict.now)], strict).text == "200 \(device.thumbprint)")
    }

    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func whereKeysAreOffNoSessionIsBoundAndBoundOnesStaySo(_ app: App) async throws {
        let lax = try ContractWorld(accounts: store, policies: policies(.off))
        let (bound, unbound) = (
            try await open(app, "ada", [try device.proof(app.opening, at: world.now)]).refresh,
            try await open(app, "bob", ["DPoP: x"], lax)
        )
        #expect(unbound.text.hasSuffix("unbound"))
        #expect(try await open(app, "eve", [try device.proof(app.opening, at: lax.now)], lax).text.hasSuffix("unbound"))
        let path = app.refreshing
        #expect(try await refresh(app, unbound.refresh, [try device.proof(path, at: lax.now)], lax).text == "200 unbound")
        // A proof that can be made anew is no reason to sign out here, either.
        #expect(try await refresh(app, bound, ["DPoP: x"], lax).text == "400 DEVICE_PROOF_INVALID")
        #expect(try await refresh(app, bound, [], lax).text == "\(app.refreshStatus) DEVICE_PROOF_REQUIRED")
        #expect(try await refresh(app, bound, [try device.proof(path, at: lax.now)], lax).text == "200 \(device.thumbprint)")
    }

    /// A proof without the gateways' nonce gets it, and no session ends by that.
    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func aProofWithoutTheNonceIsToldTheNonce(_ app: App) async throws {
        let world = try ContractWorld(accounts: store, nonceSecret: [1])
        func refused(_ path: String, _ body: String, _ nonce: String = "") async throws -> (String, String) {
            let answer = try await world.ask("POST", path, [try device.proof(path, at: world.now, nonce: nonce)], Array(body.utf8))
            let outcome = try Outcome(answer)
            #expect(outcome.challenge.contains("use_dpop_nonce"))
            return (outcome.text, answer.fields.first { $0.name == "DPoP-Nonce" }?.value ?? "")
        }
        let (opening, nonce) = try await refused(app.opening, try await app.body(world, "ada"))
        #expect(opening == "\(app.status) DEVICE_PROOF_INVALID")
        let token = try await open(app, "ada", [try device.proof(app.opening, at: world.now, nonce: nonce)], world).refresh
        try await world.wait(seconds: 660)
        let (refresh, next) = try await refused(app.refreshing, #"{"\#(app.member)":"\#(token)"}"#, nonce)
        #expect(refresh == "400 DEVICE_PROOF_INVALID" && next != nonce)
        let fresh = [try device.proof(app.refreshing, at: world.now, nonce: next)]
        #expect(try await self.refresh(app, token, fresh, world).text == "200 \(device.thumbprint)")
        let oauth = try await world.ask(
            "POST", "/oauth/token", [try device.proof("/oauth/token", at: world.now)],
            Array("grant_type=refresh_token&refresh_token=x".utf8))
        #expect(oauth.status == 400 && oauth.body.rawBytes.text.contains("use_dpop_nonce"))
        #expect(oauth.fields.contains { $0.name == "DPoP-Nonce" && $0.value == next })
    }

    /// Only a bound session needs the nonce where keys are off, and none ends for want of it. Its app has the key, so that is no alarm.
    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func whereKeysAreOffABoundSessionIsToldTheNonce(_ app: App) async throws {
        let lax = try ContractWorld(accounts: store, policies: policies(.off), nonceSecret: [1])
        let (bound, unbound) = (
            try await open(app, "ada", [try device.proof(app.opening, at: world.now)]).refresh, try await open(app, "bob", []).refresh
        )
        let (path, bodies) = (app.refreshing, [bound, unbound].map { Array(#"{"\#(app.member)":"\#($0)"}"#.utf8) })
        let refused = try await lax.ask("POST", path, [try device.proof(path, at: lax.now)], bodies[0])
        let nonce = refused.fields.first { $0.name == "DPoP-Nonce" }?.value ?? ""
        let outcome = try Outcome(refused)
        #expect(outcome.text == "400 DEVICE_PROOF_INVALID" && outcome.challenge.contains("use_dpop_nonce") && nonce.utf8.count == 16)
        let form = Array("grant_type=refresh_token&refresh_token=\(bound)".utf8)
        let oauth = try await lax.ask("POST", "/oauth/token", [try device.proof("/oauth/token", at: lax.now)], form)
        #expect(try oauth.status == 400 && Outcome(oauth).text.hasSuffix("USE_DPOP_NONCE"))
        func alarms() async throws -> Int {
            try await store.auditEvents(of: nil, before: nil, limit: 100).filter { $0.kind == .deviceKeyRefused }.count
        }
        #expect(try await alarms() == 0)
        _ = try await lax.ask("POST", path, [], bodies[0])
        #expect(try await alarms() == 1)
        let next = try await lax.ask("POST", path, [try device.proof(path, at: lax.now, nonce: nonce)], bodies[0])
        #expect(try Outcome(next).text == "200 \(device.thumbprint)")
        #expect(try await Outcome(lax.ask("POST", path, [try device.proof(path, at: lax.now)], bodies[1])).text == "200 unbound")
    }

    /// So that the next proof need not be sent twice.
    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func whoUsesTheFormerNonceIsGivenTheNewOne(_ app: App) async throws {
        let world = try ContractWorld(accounts: store, nonceSecret: [1])
        func given(_ path: String, _ body: String, _ nonce: String) async throws -> (outcome: Outcome, nonce: String?) {
            let answer = try await world.ask("POST", path, [try device.proof(path, at: world.now, nonce: nonce)], Array(body.utf8))
            return (try Outcome(answer), answer.fields.first { $0.name == "DPoP-Nonce" }?.value)
        }
        let body = try await app.body(world, "ada")
        let first = try #require(try await given(app.opening, body, "").nonce)
        let opened = try await given(app.opening, body, first)
        #expect(opened.nonce == nil)
        try await world.wait(seconds: 300)
        var token = opened.outcome.refresh
        let renewed = try await given(app.refreshing, #"{"\#(app.member)":"\#(token)"}"#, first)
        let second = try #require(renewed.nonce)
        if !renewed.outcome.refresh.isEmpty { token = renewed.outcome.refresh }
        #expect(renewed.outcome.text == "200 \(device.thumbprint)" && second != first)
        let last = try await given(app.refreshing, #"{"\#(app.member)":"\#(token)"}"#, second)
        #expect(last.outcome.text == "200 \(device.thumbprint)" && last.nonce == nil)
        // So is one whose passkey, or token, does not count.
        let refusals = [
            ("/account/passkeys/authentication/verify", #"{"contract":"\#(app.contract.name)"}"#), (app.refreshing, "{}"),
            ("/oauth/token", "grant_type=refresh_token&refresh_token=x"),
        ]
        for (path, body) in refusals {
            for (sent, expected) in [(first, second), (second, nil)] {
                let refused = try await given(path, body, sent)
                #expect(refused.outcome.text.hasPrefix("4") && refused.nonce == expected, "\(path)")
            }
        }
    }

    /// A flood of proofs that do not hold is refused before any signature is looked at: then so is one that would hold.
    @Test(arguments: apps)
    private func wrongProofsAreLimitedByAddress(_ app: App) async throws {
        let path = app.refreshing.isEmpty ? app.opening : app.refreshing
        let body = app.refreshing.isEmpty ? try await app.body(world, "ada") : #"{"\#(app.member)":"x"}"#
        func status(_ proof: String) async throws -> Int { try await world.ask("POST", path, [proof], Array(body.utf8)).status }
        // Proofs that hold are not counted, and those that were used are.
        let used = try device.proof(path, at: world.now)
        for _ in 0..<100 { #expect(try await status(device.proof(path, at: world.now)) != 429) }
        #expect(try await status(used) != 429)
        let wrong = try ["DPoP: x", used, used + "A", thief.proof(path, at: world.now - 100)]
        for number in 0..<150 { #expect(try await status(wrong[number % 4]) == (app.refreshing.isEmpty ? app.status : 400)) }
        for proof in wrong + [try device.proof(path, at: world.now)] { #expect(try await status(proof) == 429) }
        let bare = try await world.ask("POST", path, [], Array(body.utf8))
        #expect(bare.status != 429 && bare.status < 500)
        try await world.wait(seconds: 60)
        #expect(try await status(device.proof(path, at: world.now)) != 429)
    }

    /// Others behind the address of an owner keep no session from being refreshed or ended, and see no more of it.
    @Test(arguments: apps.filter { !$0.refreshing.isEmpty })
    private func wrongProofsOfOthersKeepNoSessionFromItsOwner(_ app: App) async throws {
        var token = try await open(app, "ada", [try device.proof(app.opening, at: world.now)]).refresh
        for _ in 0..<150 { #expect(try await refresh(app, "x", ["DPoP: x"]).text == "400 DEVICE_PROOF_INVALID") }
        #expect(try await refresh(app, "x", [try device.proof(app.refreshing, at: world.now)]).text.hasPrefix("429"))
        #expect(try await open(app, "bob", [try device.proof(app.opening, at: world.now)]).text.hasPrefix("429"))
        let renewed = try await refresh(app, token, [try device.proof(app.refreshing, at: world.now)])
        #expect(renewed.text == "200 \(device.thumbprint)")
        if !renewed.refresh.isEmpty { token = renewed.refresh }
        for fields in [["DPoP: x"], [try thief.proof(app.refreshing, at: world.now)]] {
            #expect(try await refresh(app, token, fields).text.hasSuffix("DEVICE_PROOF_INVALID"))
        }
        func oauth(_ path: String, _ form: String) async throws -> Int {
            try await world.ask("POST", path, [try device.proof(path, at: world.now)], Array(form.utf8)).status
        }
        for (path, form) in [("token", "grant_type=refresh_token&refresh_token="), ("revoke", "token=")] {
            #expect(try await [oauth("/oauth/\(path)", form + "x"), oauth("/oauth/\(path)", form + token)] == [429, 200])
        }
    }

    private func policies(_ use: DeviceKeyUse) -> SessionPolicies {
        var policies = SessionPolicies()
        for contract in ContractID.allCases { policies[contract].deviceKey = use }
        return policies
    }

    /// Its access token alone gives a thief neither the account nor what the guest has.
    @Test func aBoundGuestIsTakenByItsKeyAlone() async throws {
        let app = try #require(Self.apps.first { $0.contract == .anonymous })
        let guest = try await open(app, "", [try device.proof(app.opening, at: world.now)])
        let bearer = "Authorization: DPoP \(guest.access)"
        for target in Self.apps where [.password, .dlauth, .provider].contains(target.contract) {
            let wrong = [[], [try thief.proof(target.opening, at: world.now)]]
            let codes = try await [open(target, "eve", [bearer] + wrong[0]).text, open(target, "eve", [bearer] + wrong[1]).text]
            #expect(codes == ["\(target.status) DEVICE_PROOF_REQUIRED", "\(target.status) DEVICE_PROOF_INVALID"])
        }
        let other = try await open(app, "", [])
        func merge(_ token: String, _ fields: [String]) async throws -> Int {
            try await world.ask(
                "POST", "/account/merge", ["Authorization: Bearer \(other.access)"] + fields, Array(#"{"guest_token":"\#(token)"}"#.utf8)
            ).status
        }
        for token in [guest.access, guest.refresh] {
            #expect(try await merge(token, []) == 401)
            #expect(try await merge(token, [try thief.proof("/account/merge", at: world.now)]) == 401)
        }
        let dlauth = try #require(Self.apps.first { $0.contract == .dlauth })
        let owner = try await open(dlauth, "ada", [bearer, try device.proof(dlauth.opening, at: world.now)])
        #expect(subject(owner.access) == subject(guest.access) && owner.text.hasSuffix(device.thumbprint))
    }

    private func subject(_ token: String) -> String? {
        let payload = String(token.split(separator: ".")[1])
        let claims = payload.withRawBytes { Base64URL.decode($0) }.flatMap { try? JSONSerialization.jsonObject(with: Data($0)) }
        return (claims as? [String: Any])?["sub"] as? String
    }
}
