import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The tokens of a sign-in.
struct Tokens: Codable, Equatable, Sendable {
    var access: String
    /// nil in a contract without refresh.
    var refresh: String?
    /// The contract of the sign-in, which refreshes them.
    var contract: AuthContract

    /// The id of the account, as the access token has it.
    var account: String? {
        let parts = access.components(separatedBy: ".")
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
        text += String(repeating: "=", count: (4 - text.count % 4) % 4)
        let claims = Data(base64Encoded: text).flatMap { try? JSONSerialization.jsonObject(with: $0) }
        return (claims as? [String: Any])?["sub"] as? String
    }
}

/// What is kept of a device's user.
struct Session: Codable, Equatable, Sendable {
    /// nil if nobody is signed in.
    var tokens: Tokens?
    /// The tokens of guests who signed in to another account, until they are merged into it.
    var guests: [Tokens] = []
}

/// Where tokens outlive the app: the Keychain; in tests, memory.
protocol TokenStore: Sendable {
    func load() throws -> Session
    func save(_ session: Session) throws
}

/// What differs between the contracts of the gateway.
struct AuthContract: Codable, Equatable, Sendable {
    /// Where it is mounted.
    var base: String
    /// The names of the tokens in bodies; nil without refresh tokens.
    var access: String
    var refresh: String?
    /// The member of a sign-in's answer that holds the tokens; nil if they are in the answer itself.
    var holder: String?
    var refreshPath = "/auth/refresh"
    /// Whether it opens accounts for which nothing but their tokens signs in.
    var opensGuests = false

    static let password = AuthContract(base: "/api/v1", access: "access", refresh: "refresh", holder: "tokens")
    static let provider = AuthContract(base: "/whateat/api/v1", access: "accessToken", refresh: "refreshToken")
    static let anonymous = AuthContract(base: "", access: "sessionToken", refresh: "refreshToken", opensGuests: true)
    static let dlauth = AuthContract(
        base: "", access: "access_token", refresh: "refresh_token", holder: "session", refreshPath: "/auth/token/refresh")
    static let apple = AuthContract(base: "", access: "token", holder: "body")

    /// The tokens of an answer; nil if it has none. A contract that does not rotate keeps the refresh token that it has given.
    func tokens(in answer: Data, keeping old: String? = nil) -> Tokens? {
        guard let whole = try? JSONSerialization.jsonObject(with: answer) as? [String: Any] else { return nil }
        let body = holder.flatMap { whole[$0] as? [String: Any] } ?? whole
        guard let access = body[access] as? String else { return nil }
        guard let name = refresh else { return Tokens(access: access, contract: self) }
        guard let refresh = body[name] as? String ?? old else { return nil }
        return Tokens(access: access, refresh: refresh, contract: self)
    }
}

enum AuthError: Error, Equatable {
    /// There is no session, or the gateway has ended it: show the sign-in.
    case signedOut
    /// The gateway refused a sign-in or a merge, or a refresh for its proof of the device's key (`DEVICE_PROOF_REQUIRED`), which ends no
    /// session. `code` is for the app (`ACCOUNT_BANNED`, `NOT_A_GUEST`), `message` for people.
    case refused(status: Int, code: String, message: String)
    /// No answer said whether the session still exists. It is kept: try again later.
    case unavailable
}

/// Keeps a session of the gateway: signs in and out, adds the access token to requests, and refreshes it.
actor AuthManager {
    private let url: URL
    private let store: any TokenStore
    private let network: URLSession
    /// The name of this device in the account's list of sessions.
    private let device: String?
    /// Between the tries of a refresh; it doubles.
    private let pause: Duration
    private var session: Session
    /// The refresh under way, for which all requests with these expired tokens wait.
    private var refreshing: (old: Tokens, task: Task<Tokens, any Error>)?

    init(
        url: URL, store: any TokenStore, network: URLSession = .shared, device: String? = nil, pause: Duration = .seconds(1)
    ) throws {
        (self.url, self.store, self.network, self.device, self.pause) = (url, store, network, device, pause)
        session = try store.load()
    }

    var isSignedIn: Bool { session.tokens != nil }

    /// Whether a guest of this device can be merged into the account that has signed in since.
    var hasGuest: Bool { !session.guests.isEmpty }

    /// Signs in, or registers, at a path of the contract. Returns the answer, which has the user. `keepsAccount`: the request has the
    /// access token, so that a guest gets an email or an identity and keeps the account. If the sign-in leads to another account, the
    /// guest's tokens are kept for `mergeGuest`.
    @discardableResult
    func signIn(
        _ contract: AuthContract, _ path: String, _ body: some Encodable & Sendable, keepsAccount: Bool = false
    ) async throws -> Data {
        var request = request(contract.base + path, try JSONEncoder().encode(body))
        if keepsAccount { request = Self.authorized(request, try await renewed()) }
        return try adopt(contract, try await network.data(for: request))
    }

    /// Signs in with the gateway's answer to a request that the app has sent itself, like that of a passkey. Returns its body.
    @discardableResult
    func adopt(_ contract: AuthContract, _ answer: (Data, URLResponse)) throws -> Data {
        let (data, response) = answer
        guard (200..<300).contains(response.status) else { throw Self.refusal(data, response) }
        guard let new = contract.tokens(in: data) else { throw AuthError.unavailable }
        var next = session
        if let former = session.tokens, former.contract.opensGuests { next.guests.append(former) }
        next.guests.removeAll { $0.account != nil && $0.account == new.account }
        next.tokens = new
        try keep(next)
        return data
    }

    /// Merges the guest into the account that is signed in: ask the user before. `path` is that of `TOLLGATE_ACCOUNT`. After a lost
    /// answer it can be called again.
    func mergeGuest(_ path: String = "/account") async throws {
        for guest in session.guests {
            let body = try JSONEncoder().encode(["guest_token": guest.refresh ?? guest.access])
            let (data, response) = try await send(request(path + "/merge", body))
            if response.status == 200, Self.object(data)?["merged_from"] != nil {
                try replace(guest, with: nil)
                continue
            }
            let refusal = Self.refusal(data, response)
            // 400: its session has ended. 409: it has become an account that something signs in to.
            if [400, 409].contains(response.status), refusal != .unavailable { try replace(guest, with: nil) }
            throw refusal
        }
    }

    /// Drops the tokens of the guest, which the user does not want to merge: nothing signs in to its account any more.
    func forgetGuest() throws { try keep(Session(tokens: session.tokens)) }

    /// Sends a request with the access token. One that is refused is refreshed, and the request is sent once more.
    func send(_ request: URLRequest) async throws -> (Data, URLResponse) {
        guard let tokens = session.tokens else { throw AuthError.signedOut }
        let first = try await network.data(for: Self.authorized(request, tokens))
        guard first.1.status == 401, !first.1.asksForSignIn else { return first }
        return try await network.data(for: Self.authorized(request, refreshed(after: tokens)))
    }

    /// Signs out here at once, and drops a guest who was not merged. False if the gateway could not be told, where the session then
    /// ends by its own time.
    @discardableResult
    func signOut() async -> Bool {
        let former = session.tokens
        try? keep(Session())
        guard let tokens = former else { return true }
        // The refresh token, because the access token may have expired.
        var request = request("/oauth/revoke", Data("token=\(tokens.refresh ?? tokens.access)".utf8))
        request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
        return (try? await network.data(for: request))?.1.status == 200
    }

    /// Tokens for a sign-in that keeps the account. It ignores an access token that has expired and opens another account, and the
    /// device's clock may be wrong: so they are refreshed in any case.
    private func renewed() async throws -> Tokens {
        guard let tokens = session.tokens else { throw AuthError.signedOut }
        return tokens.refresh == nil ? tokens : try await refreshed(after: tokens)
    }

    /// Other tokens than those that were refused: of a refresh that has ended meanwhile, that is under way, or that begins now.
    private func refreshed(after refused: Tokens) async throws -> Tokens {
        guard let tokens = session.tokens else { throw AuthError.signedOut }
        if tokens.access != refused.access { return tokens }
        if let refreshing, refreshing.old == tokens { return try await refreshing.task.value }
        // A task of its own: the end of one screen must not end the refresh of all.
        let task = Task { try await refresh(tokens) }
        refreshing = (tokens, task)
        return try await task.value
    }

    private func refresh(_ old: Tokens) async throws -> Tokens {
        defer { if refreshing?.old == old { refreshing = nil } }
        guard let name = old.contract.refresh, let token = old.refresh else {
            try replace(old, with: nil)
            throw AuthError.signedOut
        }
        for attempt in 0..<3 {
            if attempt > 0 { try await Task.sleep(for: pause * (1 << (attempt - 1))) }
            let body = try JSONEncoder().encode([name: token])
            let answer = try? await network.data(for: request(old.contract.base + old.contract.refreshPath, body))
            // An answer that was lost is asked for again: the gateway repeats it.
            guard let (data, response) = answer else { continue }
            if response.status == 200, let new = old.contract.tokens(in: data, keeping: token) {
                try replace(old, with: new)
                return new
            }
            // Nothing else ends a session: neither 5xx nor 429, nor a page of the hotel's network.
            if [400, 401].contains(response.status), let refused = Self.code(in: data) {
                // The session goes on: the app can send a proof of the device's key, or let the user sign in.
                if refused.code.uppercased().hasPrefix("DEVICE_PROOF_") { throw Self.refusal(data, response) }
                try replace(old, with: nil)
                throw AuthError.signedOut
            }
        }
        throw session.tokens == old ? AuthError.unavailable : .signedOut
    }

    /// Replaces tokens where they are kept: a sign-in may have made them a guest's meanwhile, a sign-out have removed them.
    private func replace(_ old: Tokens, with new: Tokens?) throws {
        var next = session
        if next.tokens == old {
            next.tokens = new
        } else if let place = next.guests.firstIndex(of: old) {
            next.guests.replaceSubrange(place...place, with: new.map { [$0] } ?? [])
        } else {
            throw AuthError.signedOut
        }
        try keep(next)
    }

    /// In the store first: what is only in memory would be gone with the app.
    private func keep(_ new: Session) throws {
        defer { session = new }
        try store.save(new)
    }

    private func request(_ path: String, _ body: Data) -> URLRequest {
        var request = URLRequest(url: url.appendingPathComponent(path), timeoutInterval: 15)
        request.httpMethod = "POST"
        request.httpBody = body
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        if let device { request.setValue(device, forHTTPHeaderField: "X-Device-Name") }
        return request
    }

    private static func authorized(_ request: URLRequest, _ tokens: Tokens) -> URLRequest {
        var request = request
        request.setValue("Bearer \(tokens.access)", forHTTPHeaderField: "Authorization")
        return request
    }

    private static func refusal(_ data: Data, _ response: URLResponse) -> AuthError {
        guard response.status < 500, let (code, message) = code(in: data) else { return .unavailable }
        return .refused(status: response.status, code: code, message: message)
    }

    /// Code and message of a refusal in the form of any contract.
    private static func code(in data: Data) -> (code: String, message: String)? {
        guard let body = object(data) else { return nil }
        if let error = body["error"] as? [String: Any], let code = error["code"] as? String {
            return (code, error["message"] as? String ?? "")
        }
        guard let error = body["error"] as? String else { return nil }
        return (body["code"] as? String ?? error, body["message"] as? String ?? error)
    }

    private static func object(_ data: Data) -> [String: Any]? { try? JSONSerialization.jsonObject(with: data) as? [String: Any] }
}

extension URLResponse {
    fileprivate var status: Int { (self as? HTTPURLResponse)?.statusCode ?? 0 }

    /// Whether the route wants a newer sign-in (RFC 9470), which no refresh gives.
    fileprivate var asksForSignIn: Bool {
        let challenge = (self as? HTTPURLResponse)?.value(forHTTPHeaderField: "WWW-Authenticate")
        return challenge?.contains("insufficient_user_authentication") == true
    }
}

#if canImport(Security)
    import Security

    struct KeychainError: Error { let status: OSStatus }

    /// The Keychain, readable from the first unlock on, and on this device alone.
    struct Keychain: TokenStore {
        let service: String

        private var item: [CFString: Any] {
            [kSecClass: kSecClassGenericPassword, kSecAttrService: service, kSecAttrAccount: "tokens"]
        }

        func load() throws -> Session {
            var found: CFTypeRef?
            let status = SecItemCopyMatching(item.merging([kSecReturnData: true]) { $1 } as CFDictionary, &found)
            if status == errSecItemNotFound { return Session() }
            guard status == errSecSuccess, let data = found as? Data else { throw KeychainError(status: status) }
            return try JSONDecoder().decode(Session.self, from: data)
        }

        func save(_ session: Session) throws {
            var status = SecItemDelete(item as CFDictionary)
            if session != Session() {
                let value: [CFString: Any] = [
                    kSecValueData: try JSONEncoder().encode(session), kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
                ]
                status = SecItemAdd(item.merging(value) { $1 } as CFDictionary, nil)
            }
            guard status == errSecSuccess || status == errSecItemNotFound else { throw KeychainError(status: status) }
        }
    }
#endif
