import Foundation
import FoundationNetworking

/// The `AuthManager` of the `provider` document.
final class ProviderApp {
    struct AuthResponse: Codable {
        let accessToken: String
        let refreshToken: String
        let expiresIn: Int
        let expiresAt: Int
        let user: AuthUser
    }

    struct AuthUser: Codable {
        let id: String
        let email: String?
        let createdAt: String
    }

    private let baseURL: String
    private(set) var accessToken: String?
    private(set) var refreshToken: String?
    var expiresAt: Date?

    init(_ baseURL: String) { self.baseURL = baseURL }

    func handleAppleSignIn(idToken: String, givenName: String?, familyName: String?) async throws -> AuthUser {
        var body: [String: Any] = ["provider": "apple", "idToken": idToken]
        if givenName != nil || familyName != nil {
            // A name that is missing goes out as null.
            body["fullName"] = ["givenName": givenName as Any? ?? NSNull(), "familyName": familyName as Any? ?? NSNull()]
        }
        let response = try await post("/auth/signin", body)
        saveTokens(response)
        return response.user
    }

    private func post(_ path: String, _ body: [String: Any]) async throws -> AuthResponse {
        let (data, response) = try await AppNetwork.data(for: AppNetwork.request("POST", baseURL + path, body))
        guard response.statusCode == 200 else { throw AppFault.status(response.statusCode) }
        return try JSONDecoder().decode(AuthResponse.self, from: data)
    }

    private func saveTokens(_ response: AuthResponse) {
        accessToken = response.accessToken
        refreshToken = response.refreshToken
        expiresAt = Date(timeIntervalSince1970: TimeInterval(response.expiresAt))
    }

    private func clearTokens() { (accessToken, refreshToken, expiresAt) = (nil, nil, nil) }

    func getValidAccessToken() async throws -> String {
        if let token = accessToken, let expires = expiresAt, expires > Date().addingTimeInterval(300) { return token }
        guard let refresh = refreshToken else { throw AppFault.notSignedIn }
        return try await refreshTokens(refresh)
    }

    private func refreshTokens(_ refreshToken: String) async throws -> String {
        do {
            let response = try await post("/auth/refresh", ["refreshToken": refreshToken])
            saveTokens(response)
            return response.accessToken
        } catch AppFault.status(401) {
            clearTokens()
            throw AppFault.sessionExpired
        }
    }

    func signOut() async {
        guard let token = accessToken else { return }
        // Best-effort, as in the document.
        _ = try? await AppNetwork.data(for: AppNetwork.request("POST", baseURL + "/auth/signout", bearer: token))
        clearTokens()
    }

    /// Tries once more after a 401, with whatever token it then has.
    func authenticatedRequest(_ url: String) async throws -> (Data, status: Int) {
        var request = try AppNetwork.request("GET", url, bearer: try await getValidAccessToken())
        let (data, response) = try await AppNetwork.data(for: request)
        if response.statusCode == 401 {
            request.setValue("Bearer \(try await getValidAccessToken())", forHTTPHeaderField: "Authorization")
            let (again, second) = try await AppNetwork.data(for: request)
            return (again, second.statusCode)
        }
        return (data, response.statusCode)
    }
}
