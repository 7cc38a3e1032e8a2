import Accounts
import Credentials
import Foundation
import Stories
import Wire

/// A stream of numbers that is the same for the same seed.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// SplitMix64.
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    /// True once in `odds`.
    mutating func once(in odds: Int) -> Bool { Int.random(in: 0..<odds, using: &self) == 0 }
}

/// A caller of the contracts, with the addresses they own and the credentials they hold.
struct Person {
    /// A session that they were handed.
    struct Held {
        let user: Wire.UUID
        let session: Wire.UUID
        var access: String
        var refresh: String?
        let contract: String
    }

    /// A message that came to their mailbox or phone.
    enum Mail {
        /// `sent` is the type that it was asked for as, `signup` for that of a sign-up itself and `link` for those of
        /// `anonymous`; `account` is the account that had the email then.
        case code(String, sent: String, recipient: String, account: Wire.UUID?)
        case reset(String)
    }

    let name: String
    let email: String
    let phone: String
    /// The passwords that they choose from.
    let passwords: [String]
    var held: [Held] = []
    var mail: [Mail] = []

    init(_ name: String, _ number: Int, phone: Int) {
        self.name = name
        email = "\(name)\(number)@x.test"
        self.phone = "+1555\(phone)\(String(1_000_000 + number).dropFirst())"
        passwords = ["\(name) chose this", "\(name) chose that"]
    }
}

/// An attacker and the owner of an email, each with a mailbox that only they read, over all contracts; and the one claim:
/// nothing that the attacker holds opens an account in which the owner's email is proven.
struct OwnershipModel {
    let world: ContractWorld
    let store: any AccountStore
    private let hashes: HashMemory
    private var random: SeededRandom
    private(set) var owner: Person
    private(set) var attacker: Person
    /// The account of which the owner confirmed the attacker's sign-up with a code of that sign-up: the exception. It holds for
    /// the account that the code was sent for, while its email was never proven, and for no other. They share the account until
    /// the owner throws the attacker out.
    private(set) var shared: Wire.UUID?
    /// The accounts that were ever shared: the data of their sign-up stays.
    private(set) var everShared: Set<Wire.UUID> = []
    /// A claim about one step that did not hold.
    private var broken: String?
    /// The calls so far, for the report.
    private(set) var history: [String] = []

    /// `number` makes everybody's addresses their own.
    init(_ world: ContractWorld, _ store: any AccountStore, hashes: HashMemory, number: Int, seed: UInt64) {
        self.world = world
        self.store = store
        self.hashes = hashes
        random = SeededRandom(seed: seed)
        owner = Person("owner", number, phone: 10)
        attacker = Person("attacker", number, phone: 20)
    }

    // MARK: calls

    /// One call by either of them.
    mutating func step() async throws {
        let isAttack = !random.once(in: 3)
        var person = isAttack ? attacker : owner
        let before = try await store.account(email: try EmailAddress(owner.email))
        var isSquatted = false
        if let before, before.emailConfirmedAt == nil { isSquatted = try await opens(before, attacker.passwords) }
        let move = Move.weighted.randomElement(using: &random) ?? .signUp
        let done = try await make(move, &person, isAttack ? [owner.email, attacker.email] : [owner.email])
        history.append("\(person.name): \(done.text)")
        if isAttack { attacker = person } else { owner = person }
        try await deliver(sent: done.sent)
        guard !isAttack, done.status == 200 else { return }
        if isSquatted, let before, done.confirmedSignUp == before.id {
            shared = before.id
            everShared.insert(before.id)
            try await claimThatOnlyThePasswordStays(before.id)
        }
        if done.isNewPassword, let after = try await store.account(email: try EmailAddress(owner.email)), after.id == shared,
            try await !isWayIn(after)
        {
            shared = nil
        }
    }

    private enum Move: CaseIterable {
        case signUp, register, signIn, login, signInByName, resend, resendPhone, verify, guess, forgot, reset, update, google, apple
        case googleUnverified, openGuest, guestCode, guestVerify, merge, refresh, signOut, wait

        /// How often it is made: those that lead somewhere more often than others.
        private var weight: Int {
            switch self {
            case .resend, .verify: 8
            case .signUp: 4
            case .resendPhone: 3
            case .register, .signIn, .forgot, .reset, .update, .google: 2
            case .login, .signInByName, .guess, .apple, .googleUnverified, .openGuest, .guestCode, .guestVerify, .merge,
                .refresh, .signOut, .wait:
                1
            }
        }

        static let weighted = allCases.flatMap { Array(repeating: $0, count: $0.weight) }
    }

    /// The outcome of a call.
    private struct Done {
        var text: String
        var status = 0
        /// The type of the code that it may have sent.
        var sent = ""
        /// The account whose sign-up the code was sent for that it used.
        var confirmedSignUp: Wire.UUID?
        var isNewPassword = false
    }

    private mutating func make(_ move: Move, _ person: inout Person, _ targets: [String]) async throws -> Done {
        let email = targets.randomElement(using: &random) ?? person.email
        let password = person.passwords.randomElement(using: &random) ?? ""
        let bearer = random.once(in: 2) ? person.held.suffix(3).randomElement(using: &random) : nil
        let planted = #"{"by":"\#(person.name)"}"#
        switch move {
        case .signUp:
            return try await call(
                "POST", "/auth/signup", #"{"email":"\#(email)","password":"\#(password)","metadata":\#(planted)}"#, &person, bearer,
                sent: "signup")
        case .register:
            let name = #""username":"\#(person.name)\#(email.prefix { $0 != "@" })""#
            return try await call(
                "POST", "/api/v1/auth/register", #"{"email":"\#(email)","password":"\#(password)",\#(name)}"#, &person, bearer)
        case .signIn:
            return try await call("POST", "/auth/signin", #"{"email":"\#(email)","password":"\#(password)"}"#, &person)
        case .login:
            return try await call("POST", "/api/v1/auth/login", #"{"email":"\#(email)","password":"\#(password)"}"#, &person)
        case .signInByName:
            let name = "\(person.name)\(email.prefix { $0 != "@" })"
            return try await call("POST", "/auth/signin", #"{"username":"\#(name)","password":"\#(password)"}"#, &person)
        case .resend:
            let type = ["signup", "email", "recovery", "email_change"].randomElement(using: &random) ?? ""
            let to = [owner.email, attacker.email].randomElement(using: &random) ?? email
            let bearer = self.bearer(for: type, of: person, else: bearer)
            return try await call("POST", "/auth/otp/resend", #"{"email":"\#(to)","type":"\#(type)"}"#, &person, bearer, sent: type)
        case .resendPhone:
            let type = ["sms", "phone_change"].randomElement(using: &random) ?? ""
            let to = [owner.phone, attacker.phone, person.phone].randomElement(using: &random) ?? ""
            let bearer = self.bearer(for: type, of: person, else: bearer)
            return try await call("POST", "/auth/otp/resend", #"{"phone":"\#(to)","type":"\#(type)"}"#, &person, bearer, sent: type)
        case .verify: return try await verify(&person, bearer)
        case .guess:
            let type = ["signup", "email", "recovery"].randomElement(using: &random) ?? ""
            return try await call("POST", "/auth/otp/verify", #"{"email":"\#(email)","token":"12345x","type":"\#(type)"}"#, &person, bearer)
        case .forgot:
            return try await call("POST", "/auth/password/forgot", #"{"email":"\#(email)"}"#, &person)
        case .reset:
            guard case .reset(let token)? = person.mail.filter(\.isReset).randomElement(using: &random) else {
                return Done(text: "no token")
            }
            var done = try await call("POST", "/auth/password/reset", #"{"token":"\#(token)","new_password":"\#(password)"}"#, &person)
            done.isNewPassword = true
            return done
        case .update:
            var done = try await call("PUT", "/auth/password/update", #"{"new_password":"\#(password)"}"#, &person, bearer)
            // Not of a guest that the owner is as well.
            done.isNewPassword = bearer?.user == shared
            return done
        case .google, .apple, .googleUnverified: return try await signInByProvider(move, &person, bearer)
        case .openGuest: return try await call("POST", "/auth/user", "", &person)
        case .guestCode:
            let to = [owner.email, attacker.email].randomElement(using: &random) ?? email
            return try await call("POST", "/auth/email/code", #"{"email":"\#(to)"}"#, &person, bearer, sent: "link")
        case .guestVerify:
            guard case .code(let code, _, let to, _)? = person.mail.filter(\.isCode).suffix(4).randomElement(using: &random) else {
                return Done(text: "no code")
            }
            return try await call("POST", "/auth/email/verify", #"{"email":"\#(to)","code":"\#(code)"}"#, &person, bearer)
        case .merge:
            guard let bearer, let guest = person.held.suffix(3).randomElement(using: &random) else { return Done(text: "no session") }
            return try await call("POST", "/account/merge", #"{"guest_token":"\#(guest.access)"}"#, &person, bearer)
        case .refresh:
            guard let held = person.held.randomElement(using: &random), let refresh = held.refresh else { return Done(text: "no session") }
            return try await call("POST", held.refreshPath, #"{"\#(held.refreshName)":"\#(refresh)"}"#, &person)
        case .signOut:
            guard let bearer else { return Done(text: "no session") }
            return try await call("POST", "/auth/signout", "", &person, bearer)
        case .wait:
            let seconds = [1, 31, 601].randomElement(using: &random) ?? 1
            try await world.wait(seconds: seconds)
            return Done(text: "wait \(seconds)")
        }
    }

    /// A code from the own mailbox, mostly tried as the purpose it was sent for.
    private mutating func verify(_ person: inout Person, _ bearer: Person.Held?) async throws -> Done {
        guard case .code(let code, let sent, let to, let account)? = person.mail.filter(\.isCode).suffix(3).randomElement(using: &random)
        else {
            return Done(text: "no code")
        }
        let types = to.contains("@") ? ["signup", "email", "recovery", "email_change"] : ["sms", "phone_change"]
        let type = random.once(in: 3) || sent == "link" ? types.randomElement(using: &random) ?? sent : sent
        let name = to.contains("@") ? "email" : "phone"
        let bearer = self.bearer(for: type, of: person, else: bearer)
        var done = try await call(
            "POST", "/auth/otp/verify", #"{"\#(name)":"\#(to)","token":"\#(code)","type":"\#(type)"}"#, &person, bearer)
        done.confirmedSignUp = sent == "signup" ? account : nil
        return done
    }

    /// Types that need a session get one most of the time.
    private mutating func bearer(for type: String, of person: Person, else other: Person.Held?) -> Person.Held? {
        type.hasSuffix("_change") && !random.once(in: 5) ? person.held.last : other
    }

    private mutating func signInByProvider(_ move: Move, _ person: inout Person, _ bearer: Person.Held?) async throws -> Done {
        // Whom a provider has verified; and an email that one only claims.
        let email = move == .googleUnverified ? owner.email : person.email
        let claims = #"{"sub":"\#(person.subject)","email":"\#(email)","email_verified":\#(move != .googleUnverified)}"#
        if move == .apple {
            let token = try await world.idToken("apple", claims)
            return try await call("POST", "/login", #"{"idToken":"\#(token)"}"#, &person, bearer, as: "apple as \(email)")
        }
        let token = try await world.idToken("google", claims)
        return try await call(
            "POST", "/whateat/api/v1/auth/signin", #"{"provider":"google","idToken":"\#(token)"}"#, &person, bearer,
            as: "\(move) as \(email)")
    }

    /// Sends a request, and keeps the session in its response.
    private func call(
        _ method: String, _ path: String, _ body: String, _ person: inout Person, _ bearer: Person.Held? = nil, sent: String = "",
        as name: String? = nil
    ) async throws -> Done {
        let fields = bearer.map { ["Authorization: Bearer \($0.access)"] } ?? []
        let answer = try await world.ask(method, path, fields, Array(body.utf8))
        if let held = Person.Held(answer, path) {
            // Of another's session it is the newer pair.
            person.held.removeAll { $0.session == held.session }
            person.held.append(held)
        }
        let caller = bearer.map { " by a session of \($0.user.text.suffix(4))" } ?? ""
        return Done(text: "\(method) \(path) \(name ?? body)\(caller): \(answer.status)", status: answer.status, sent: sent)
    }

    /// Everybody reads their own mailbox, and no other.
    private mutating func deliver(sent: String) async throws {
        for address in [owner.email, owner.phone, attacker.email, attacker.phone] {
            guard let message = try await world.message(to: address) else { continue }
            let account = address.contains("@") ? try await store.account(email: try EmailAddress(address))?.id : nil
            let mail =
                switch message {
                case .code(let code): Person.Mail.code(code, sent: sent, recipient: address, account: account)
                case .reset(let token): Person.Mail.reset(token)
                }
            if address == owner.email || address == owner.phone { owner.mail.append(mail) } else { attacker.mail.append(mail) }
        }
    }

    // MARK: claims

    /// The password of the attacker's sign-up stays; his sessions and what he added in them are removed.
    private mutating func claimThatOnlyThePasswordStays(_ user: Wire.UUID) async throws {
        guard let account = try await store.account(user) else { return }
        if try await hasSession(of: account) { broken = "a session of the attacker outlived the confirmation" }
        if try await isWayIn(account) { broken = "the attacker's phone or identity outlived the confirmation" }
    }

    /// Anything that the attacker holds of an account in which the owner's email is proven; nil if there is nothing.
    func violation() async throws -> String? {
        if let broken { return broken }
        guard let account = try await store.account(email: try EmailAddress(owner.email)), account.emailConfirmedAt != nil else {
            return nil
        }
        if !everShared.contains(account.id) {
            if String(decoding: account.metadata.json, as: UTF8.self).contains(attacker.name) { return "the attacker's metadata are there" }
            if account.username?.text.hasPrefix(attacker.name) == true { return "the attacker's username is there" }
        }
        return account.id == shared ? nil : try await grip(on: account)
    }

    /// The attacker's way into an account; nil if he has none.
    private func grip(on account: Account) async throws -> String? {
        if try await hasSession(of: account) { return "the attacker has a session" }
        if try await opens(account, attacker.passwords) { return "the attacker has the password" }
        return try await isWayIn(account) ? "the attacker's phone or identity is there" : nil
    }

    private func hasSession(of account: Account) async throws -> Bool {
        for held in attacker.held {
            if try await store.session(held.session)?.account.id == account.id { return true }
        }
        return false
    }

    private func isWayIn(_ account: Account) async throws -> Bool {
        if account.phone?.text == attacker.phone { return true }
        return try await store.identities(of: account.id).contains { $0.key.subject == attacker.subject }
    }

    private func opens(_ account: Account, _ passwords: [String]) async throws -> Bool {
        guard account.hasPassword, let email = account.email,
            let hash = try await store.credential(for: .email(email))?.hash
        else { return false }
        return try passwords.contains { try hashes.matches($0, hash) }
    }

    /// The access tokens of sessions that the attacker lost open nothing of the account, here and now.
    func leftoverToken() async throws -> String? {
        guard let account = try await store.account(email: try EmailAddress(owner.email)), account.emailConfirmedAt != nil,
            account.id != shared
        else { return nil }
        for held in attacker.held where held.user == account.id {
            let status = try await world.ask("GET", "/auth/user", ["Authorization: Bearer \(held.access)"], []).status
            if status == 200 { return "an access token of the attacker still opens" }
        }
        return nil
    }

    /// After any history, with her mailbox the owner gets in and the attacker is out, but for a phone or an identity that he
    /// joined while they shared the account.
    mutating func throwOut() async throws -> String? {
        guard try await store.account(email: try EmailAddress(owner.email)) != nil else { return nil }
        var (person, done) = (owner, Done(text: ""))
        done = try await call("POST", "/auth/password/forgot", #"{"email":"\#(person.email)"}"#, &person)
        owner = person
        try await deliver(sent: "")
        guard done.status == 200, case .reset(let token)? = owner.mail.last(where: \.isReset) else { return "no token came: \(done.text)" }
        done = try await call("POST", "/auth/password/reset", #"{"token":"\#(token)","new_password":"hers at last"}"#, &person)
        guard done.status == 200, let account = try await store.account(email: try EmailAddress(owner.email)) else {
            return "the owner cannot reset: \(done.text)"
        }
        if everShared.contains(account.id), try await isWayIn(account) { return nil }
        return try await grip(on: account)
    }
}

/// Which passwords match which hashes: to find out costs more than a whole step.
final class HashMemory {
    private var known: [String: Bool] = [:]

    func matches(_ password: String, _ hash: String) throws -> Bool {
        if let verdict = known[password + hash] { return verdict }
        let verdict = try PasswordHash(parsing: hash)?.matches(Array(password.utf8).rawBytes) ?? false
        known[password + hash] = verdict
        return verdict
    }
}

extension Person {
    /// As Google and Apple name them.
    var subject: String { "sub-\(email)" }
}

extension Person.Mail {
    fileprivate var isCode: Bool {
        switch self {
        case .code: true
        case .reset: false
        }
    }

    fileprivate var isReset: Bool { !isCode }
}

extension Person.Held {
    /// The session in an answer, whatever the contract calls its tokens.
    fileprivate init?(_ answer: StoryAnswer, _ path: String) {
        guard answer.status < 300, let body = try? JSONSerialization.jsonObject(with: Data(answer.body)) else { return nil }
        let names = Self.texts(body)
        guard let access = ["access_token", "access", "accessToken", "sessionToken", "token"].compactMap({ names[$0] }).first,
            let claims = Self.claims(access), let user = (claims["sub"] as? String).flatMap({ Wire.UUID(parsing: $0) }),
            let session = (claims["sid"] as? String).flatMap({ Wire.UUID(parsing: $0) })
        else { return nil }
        let refresh = ["refresh_token", "refresh", "refreshToken"].compactMap { names[$0] }.first
        self.init(user: user, session: session, access: access, refresh: refresh, contract: path)
    }

    private static func texts(_ value: Any) -> [String: String] {
        guard let object = value as? [String: Any] else { return [:] }
        return object.reduce(into: [:]) { found, member in
            if let text = member.value as? String { found[member.key] = text }
            found.merge(texts(member.value)) { own, _ in own }
        }
    }

    private static func claims(_ token: String) -> [String: Any]? {
        let parts = token.split(separator: ".")
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        return Data(base64Encoded: text).flatMap { try? JSONSerialization.jsonObject(with: $0) as? [String: Any] }
    }

    /// The path and member name for the contract's refresh token.
    fileprivate var refreshPath: String {
        if contract.hasPrefix("/api/v1") { return "/api/v1/auth/refresh" }
        if contract.hasPrefix("/whateat") { return "/whateat/api/v1/auth/refresh" }
        return contract.hasPrefix("/auth/email") || contract == "/auth/user" || contract == "/auth/refresh"
            ? "/auth/refresh" : "/auth/token/refresh"
    }

    fileprivate var refreshName: String {
        switch refreshPath {
        case "/api/v1/auth/refresh": "refresh"
        case "/auth/token/refresh": "refresh_token"
        default: "refreshToken"
        }
    }
}
