import Foundation
import FoundationNetworking

/// The `AuthService` of the `password` document: it repeats on every 401 without a limit, and deletes both tokens on any
/// answer to a refresh but 200.
final class PasswordApp {
    struct User {
        let id: String
        let email: String
        let username: String
        let isPremium: Bool

        init?(from members: [String: Any]) {
            guard let id = members["id"] as? String, let email = members["email"] as? String,
                let username = members["username"] as? String, let isPremium = members["is_premium"] as? Bool
            else { return nil }
            (self.id, self.email, self.username, self.isPremium) = (id, email, username, isPremium)
        }
    }

    private let baseURL: String
    var keychain: [String: String] = [:]

    init(_ baseURL: String) { self.baseURL = baseURL }

    func register(email: String, password: String) async throws -> User {
        let (data, _) = try await post("/auth/register", ["email": email, "password": password])
        return try keepTokens(data)
    }

    func login(email: String, password: String) async throws -> User {
        let (data, response) = try await post("/auth/login", ["email": email, "password": password])
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any] else { throw AppFault.invalidResponse }
        if response.statusCode == 401 {
            let message = (json["error"] as? [String: Any])?["message"] as? String
            throw AppFault.unauthorized(message ?? "Invalid credentials")
        }
        return try keepTokens(data)
    }

    func getCurrentUser() async throws -> User {
        guard let accessToken = keychain["access_token"] else { throw AppFault.notSignedIn }
        let (data, response) = try await AppNetwork.data(for: AppNetwork.request("GET", baseURL + "/auth/me", bearer: accessToken))
        if response.statusCode == 401 {
            do {
                try await refreshTokens()
            } catch {
                throw AppFault.notSignedIn
            }
            return try await getCurrentUser()
        }
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any], let user = User(from: json) else {
            throw AppFault.invalidResponse
        }
        return user
    }

    func refreshTokens() async throws {
        guard let refreshToken = keychain["refresh_token"] else { throw AppFault.notSignedIn }
        let (data, response) = try await post("/auth/refresh", ["refresh": refreshToken])
        if response.statusCode != 200 {
            logout()
            throw AppFault.notSignedIn
        }
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any], let access = json["access"] as? String else {
            throw AppFault.invalidResponse
        }
        keychain["access_token"] = access
    }

    func logout() { keychain = [:] }

    /// The document's generic request.
    func makeAuthenticatedRequest<Value: Decodable>(_ url: String, _ type: Value.Type) async throws -> Value {
        guard let accessToken = keychain["access_token"] else { throw AppFault.notSignedIn }
        let (data, response) = try await AppNetwork.data(for: AppNetwork.request("GET", url, bearer: accessToken))
        if response.statusCode == 401 {
            do {
                try await refreshTokens()
            } catch {
                throw AppFault.notSignedIn
            }
            return try await makeAuthenticatedRequest(url, type)
        }
        return try JSONDecoder().decode(type, from: data)
    }

    private func post(_ path: String, _ body: [String: Any]) async throws -> (Data, HTTPURLResponse) {
        try await AppNetwork.data(for: AppNetwork.request("POST", baseURL + path, body))
    }

    private func keepTokens(_ data: Data) throws -> User {
        guard let json = try? JSONSerialization.jsonObject(with: data) as? [String: Any],
            let user = json["user"] as? [String: Any], let tokens = json["tokens"] as? [String: Any],
            let access = tokens["access"] as? String, let refresh = tokens["refresh"] as? String
        else { throw AppFault.invalidResponse }
        keychain["access_token"] = access
        keychain["refresh_token"] = refresh
        guard let user = User(from: user) else { throw AppFault.invalidResponse }
        return user
    }
}
