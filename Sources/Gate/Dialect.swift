import Credentials
import HTTP
package import Wire

/// Error format of a refusal: the envelope of one contract, or `application/problem+json` (RFC 9457). The only place of the
/// envelopes, for both planes.
package enum Dialect: UInt8, CaseIterable, Sendable {
    case password, provider, dlauth, apple, anonymous, problem
    /// `password` at the endpoints of that contract, which use one code for every 401.
    case passwordContract
    /// That of OAuth 2.0 (RFC 6749 §5.2), at the endpoints of RFC 7009 and RFC 7662.
    case oauth
    /// That of gRPC, for requests of gRPC whatever the route's format is: HTTP 200 and no content, the refusal as `grpc-status` and
    /// `grpc-message` (trailers-only).
    case grpc

    /// The formats that a route can have (`errors=`).
    package static let ofRoutes: [Dialect] = [.password, .provider, .dlauth, .apple, .anonymous, .problem]

    package var name: String {
        switch self {
        case .password, .passwordContract: "password"
        case .provider: "provider"
        case .dlauth: "dlauth"
        case .apple: "apple"
        case .anonymous: "anonymous"
        case .problem: "problem"
        case .oauth: "oauth"
        case .grpc: "grpc"
        }
    }

    package var contentType: StaticString {
        switch self {
        case .password, .passwordContract, .provider, .dlauth, .apple, .anonymous, .oauth: "application/json; charset=utf-8"
        case .problem: "application/problem+json"
        case .grpc: "application/grpc"
        }
    }

    /// The HTTP status of a refusal's answer.
    package func status(of refusal: Refusal) -> Int { self == .grpc ? 200 : Int(refusal.status) }

    /// Appends a body for a code and a message. `upgradeURL`, where upgrading would help, becomes a member beside the code.
    /// Only `problem` carries the request id; the other contracts do not document one, and every answer has it as a header.
    package func writeBody(
        status: UInt16, code: RawSpan, message: RawSpan, requestID: RawSpan, upgradeURL: String?, into out: inout ByteBuffer
    ) {
        guard self != .grpc else { return }
        JSONWriter.append(to: &out) { json in
            write(&json, status, code, message, requestID, upgradeURL)
        }
    }

    private func write(
        _ json: inout JSONWriter, _ status: UInt16, _ code: RawSpan, _ message: RawSpan, _ requestID: RawSpan,
        _ upgradeURL: String?
    ) {
        json.beginObject()
        switch self {
        case .password, .passwordContract, .apple, .anonymous:
            json.key("error")
            json.beginObject()
            json.field("code", code)
            json.field("message", message)
            if let upgradeURL { json.field("upgrade_url", upgradeURL) }
            json.endObject()
        case .provider:
            json.field("error", message)
            json.field("code", code)
            if let upgradeURL { json.field("upgrade_url", upgradeURL) }
        case .dlauth:
            json.field("error", code)
            json.field("message", message)
            if let upgradeURL { json.field("upgrade_url", upgradeURL) }
        case .oauth:
            json.field("error", code)
            json.field("error_description", message)
            if let upgradeURL { json.field("upgrade_url", upgradeURL) }
        case .problem:
            json.field("type", "about:blank" as StaticString)
            json.field("title", StatusText.reason(Int(status)))
            json.field("status", Int(status))
            json.field("detail", message)
            json.field("code", code)
            if requestID.byteCount > 0 { json.field("request_id", requestID) }
            if let upgradeURL { json.field("upgrade_url", upgradeURL) }
        case .grpc: break
        }
        json.endObject()
    }

    /// Appends the body of a refusal. Uses `upgradeURL` only where upgrading would help.
    package func writeBody(_ refusal: Refusal, requestID: RawSpan, upgradeURL: String?, into out: inout ByteBuffer) {
        let offersUpgrade = refusal.code == .premiumRequired
        writeBody(
            status: refusal.status, code: code(of: refusal).rawBytes, message: sentence(for: refusal).rawBytes,
            requestID: requestID, upgradeURL: offersUpgrade ? upgradeURL : nil, into: &out)
    }

    /// The code in this dialect's spelling.
    package func code(of refusal: Refusal) -> StaticString {
        switch self {
        case .password, .provider, .apple, .anonymous, .problem, .grpc: refusal.code.text
        case .passwordContract: refusal.status == 401 ? RefusalCode.unauthorized.text : refusal.code.text
        case .dlauth: Self.dlauthCode(refusal)
        case .oauth: Self.oauthCode(refusal)
        }
    }
}
