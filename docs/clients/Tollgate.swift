import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The tokens of a session.
struct Tokens: Codable, Equatable, Sendable {
    var access: String
    /// nil in a contract without refresh.
    var refresh: String?
}

/// Where tokens outlive the app: the Keychain; in tests, memory.
protocol TokenStore: Sendable {
    func load() throws -> Tokens?
    /// nil removes them.
    func save(_ tokens: Tokens?) throws
}

/// What differs between the contracts of the gateway.
struct AuthContract: Sendable {
    /// Where it is mounted.
    var base: String
    /// The names of the tokens in bodies; nil without refresh tokens.
    var access: String
    var refresh: String?
    /// The member of a sign-in's answer that holds the tokens; nil if they are in the answer itself.
    var holder: String?
    var refreshPath = "/auth/refresh"

    static let password = AuthContract(base: "/api/v1", access: "access", refresh: "refresh", holder: "tokens")
    static let provider = AuthContract(base: "/whateat/api/v1", access: "accessToken", refresh: "refreshToken")
    static let anonymous = AuthContract(base: "", access: "sessionToken", refresh: "refreshToken")
    static let dlauth = AuthContract(
        base: "", access: "access_token", refresh: "refresh_token", holder: "session", refreshPath: "/auth/token/refresh")
    static let apple = AuthContract(base: "", access: "token", holder: "body")

    /// The tokens of an answer; nil if it has none. A contract that does not rotate keeps the refresh token that it has given.
    func tokens(in answer: Data, keeping old: String? = nil) -> Tokens? {
        guard let whole = try? JSONSerialization.jsonObject(with: answer) as? [String: Any] else { return nil }
        let body = holder.flatMap { whole[$0] as? [String: Any] } ?? whole
        guard let access = body[access] as? String else { return nil }
        guard let name = refresh else { return Tokens(access: access) }
        guard let refresh = body[name] as? String ?? old else { return nil }
        return Tokens(access: access, refresh: refresh)
    }
}

enum AuthError: Error, Equatable {
    /// There is no session, or the gateway has ended it: show the sign-in.
    case signedOut
    /// The gateway refused a sign-in, or the account is banned. `code` is for the app, `message` for people.
    case refused(status: Int, code: String, message: String)
    /// No answer said whether the session still exists. It is kept: try again later.
    case unavailable
}

/// Keeps a session of the gateway: signs in and out, adds the access token to requests, and refreshes it.
actor AuthManager {
    private let url: URL
    private let contract: AuthContract
    private let store: any TokenStore
    private let network: URLSession
    /// The name of this device in the account's list of sessions.
    private let device: String?
    /// Between the tries of a refresh; it doubles.
    private let pause: Duration
    private var tokens: Tokens?
    /// The refresh under way, for which all requests with an expired token wait.
    private var refreshing: Task<Tokens, any Error>?

    init(
        url: URL, contract: AuthContract, store: any TokenStore, network: URLSession = .shared, device: String? = nil,
        pause: Duration = .seconds(1)
    ) throws {
        (self.url, self.contract, self.store, self.network, self.device, self.pause) = (url, contract, store, network, device, pause)
        tokens = try store.load()
    }

    var isSignedIn: Bool { tokens != nil }

    /// Signs in, or registers, at a path of the contract. Returns the answer, which has the user. `keepsAccount`: the request has the
    /// access token, so that an anonymous user gets an email and stays who they are.
    @discardableResult
    func signIn(_ path: String, _ body: some Encodable & Sendable, keepsAccount: Bool = false) async throws -> Data {
        let request = request(contract.base + path, try JSONEncoder().encode(body))
        let (data, response) = try await keepsAccount ? send(request) : network.data(for: request)
        guard (200..<300).contains(response.status) else { throw Self.refusal(data, response) }
        guard let new = contract.tokens(in: data) else { throw AuthError.unavailable }
        try keep(new)
        return data
    }

    /// Sends a request with the access token. One that is refused is refreshed, and the request is sent once more.
    func send(_ request: URLRequest) async throws -> (Data, URLResponse) {
        guard let tokens else { throw AuthError.signedOut }
        let first = try await network.data(for: Self.authorized(request, tokens))
        guard first.1.status == 401, !first.1.asksForSignIn else { return first }
        return try await network.data(for: Self.authorized(request, refreshed(after: tokens)))
    }

    /// Signs out here at once. False if the gateway could not be told, where the session then ends by its own time.
    @discardableResult
    func signOut() async -> Bool {
        guard let tokens else { return true }
        try? keep(nil)
        // The refresh token, because the access token may have expired.
        var request = request("/oauth/revoke", Data("token=\(tokens.refresh ?? tokens.access)".utf8))
        request.setValue("application/x-www-form-urlencoded", forHTTPHeaderField: "Content-Type")
        return (try? await network.data(for: request))?.1.status == 200
    }

    /// Other tokens than those that were refused: of a refresh that has ended meanwhile, that is under way, or that begins now.
    private func refreshed(after refused: Tokens) async throws -> Tokens {
        guard let tokens else { throw AuthError.signedOut }
        if tokens.access != refused.access { return tokens }
        // A task of its own: the end of one screen must not end the refresh of all.
        let flight = refreshing ?? Task { try await refresh(tokens) }
        refreshing = flight
        return try await flight.value
    }

    private func refresh(_ old: Tokens) async throws -> Tokens {
        defer { refreshing = nil }
        guard let name = contract.refresh, let token = old.refresh else {
            try keep(nil)
            throw AuthError.signedOut
        }
        for attempt in 0..<3 {
            if attempt > 0 { try await Task.sleep(for: pause * (1 << (attempt - 1))) }
            let body = try JSONEncoder().encode([name: token])
            let answer = try? await network.data(for: request(contract.base + contract.refreshPath, body))
            // The user may have signed out meanwhile.
            guard tokens == old else { throw AuthError.signedOut }
            // An answer that was lost is asked for again: the gateway repeats it.
            guard let (data, response) = answer else { continue }
            if response.status == 200, let new = contract.tokens(in: data, keeping: token) {
                try keep(new)
                return new
            }
            // Nothing else ends a session: neither 5xx nor 429, nor a page of the hotel's network.
            let code = Self.code(in: data)?.code
            if code == "ACCOUNT_BANNED" || [400, 401].contains(response.status) && code != nil {
                try keep(nil)
                throw code == "ACCOUNT_BANNED" ? Self.refusal(data, response) : .signedOut
            }
        }
        throw AuthError.unavailable
    }

    /// In the store first: what is only in memory would be gone with the app.
    private func keep(_ new: Tokens?) throws {
        defer { tokens = new }
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
        guard let body = try? JSONSerialization.jsonObject(with: data) as? [String: Any] else { return nil }
        if let error = body["error"] as? [String: Any], let code = error["code"] as? String {
            return (code, error["message"] as? String ?? "")
        }
        guard let error = body["error"] as? String else { return nil }
        return (body["code"] as? String ?? error, body["message"] as? String ?? error)
    }
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

        func load() throws -> Tokens? {
            var found: CFTypeRef?
            let status = SecItemCopyMatching(item.merging([kSecReturnData: true]) { $1 } as CFDictionary, &found)
            if status == errSecItemNotFound { return nil }
            guard status == errSecSuccess, let data = found as? Data else { throw KeychainError(status: status) }
            return try JSONDecoder().decode(Tokens.self, from: data)
        }

        func save(_ tokens: Tokens?) throws {
            var status = SecItemDelete(item as CFDictionary)
            if let tokens {
                let value: [CFString: Any] = [
                    kSecValueData: try JSONEncoder().encode(tokens), kSecAttrAccessible: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly,
                ]
                status = SecItemAdd(item.merging(value) { $1 } as CFDictionary, nil)
            }
            guard status == errSecSuccess || status == errSecItemNotFound else { throw KeychainError(status: status) }
        }
    }
#endif
