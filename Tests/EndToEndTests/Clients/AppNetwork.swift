import Foundation
import FoundationNetworking

/// What the documents take from the system of a phone: requests over HTTP, and a keychain.
enum AppNetwork {
    static func data(for request: URLRequest) async throws -> (Data, HTTPURLResponse) {
        let configuration = URLSessionConfiguration.ephemeral
        configuration.timeoutIntervalForRequest = 30
        let session = URLSession(configuration: configuration)
        defer { session.finishTasksAndInvalidate() }
        return try await withCheckedThrowingContinuation { continuation in
            session.dataTask(with: request) { data, response, error in
                if let error { return continuation.resume(throwing: error) }
                guard let data, let response = response as? HTTPURLResponse else {
                    return continuation.resume(throwing: AppFault.invalidResponse)
                }
                continuation.resume(returning: (data, response))
            }.resume()
        }
    }

    static func request(_ method: String, _ url: String, _ body: [String: Any]? = nil, bearer: String? = nil) throws -> URLRequest {
        guard let url = URL(string: url) else { throw AppFault.invalidResponse }
        var request = URLRequest(url: url)
        request.httpMethod = method
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        if let bearer { request.setValue("Bearer \(bearer)", forHTTPHeaderField: "Authorization") }
        if let body { request.httpBody = try JSONSerialization.data(withJSONObject: body) }
        return request
    }
}

enum AppFault: Error, Equatable {
    case invalidResponse, notSignedIn, sessionExpired
    case unauthorized(String)
    case status(Int)
}
