import HTTP
import Wire

/// The responses that certificate authorities find below `/.well-known/acme-challenge/` on plain addresses (RFC 8555 §8.3), by the token of
/// the challenge. Few at a time, and mostly none.
package struct ChallengeResponses: Sendable {
    private let responses: [(token: [UInt8], authorization: [UInt8])]

    package init(_ responses: [(token: String, authorization: String)] = []) {
        self.responses = responses.map { (Array($0.token.utf8), Array($0.authorization.utf8)) }
    }

    var isEmpty: Bool { responses.isEmpty }

    /// The response to a request for a token of these; nil for any other request.
    func response(to head: borrowing RequestHead, _ bytes: RawSpan) -> LocalResponse? {
        let path = bytes[head.path]
        let folder: StaticString = "/.well-known/acme-challenge/"
        guard head.method == .get || head.method == .head, path.hasPrefix(folder) else { return nil }
        let token = path.dropping(folder.utf8CodeUnitCount)
        guard let found = responses.first(where: { token.equals($0.token.rawBytes) }) else { return nil }
        return LocalResponse(status: 200, contentType: "application/octet-stream", body: found.authorization)
    }
}
