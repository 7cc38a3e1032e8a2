import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// A request at a contract's endpoint, in the words of the accounts.
struct ContractRequest: Sendable {
    let body: RequestObject
    let caller: Caller
    private let identity: LocalCaller?
    private let sentPath: String

    /// An empty body stands for an object without members: what an endpoint needs of it is then told to be missing.
    init(_ request: LocalRequest) throws(RequestObject.Fault) {
        // What a GET carries means nothing (RFC 9110 §9.3.1).
        let hasBody = !request.body.isEmpty && request.method != "GET" && request.method != "HEAD"
        body = hasBody ? try RequestObject(request.body) : .empty
        caller = Caller(address: request.client, device: request.value(of: "user-agent"))
        identity = request.caller
        sentPath = request.path
    }

    /// The id that stands behind `path` and a slash, where an endpoint takes what lies below its path; nil if that is none.
    func id(below path: String) -> UUID? {
        var canonical = ByteBuffer()
        let outcome = sentPath.withRawBytes { CanonicalPath.canonicalise($0, into: &canonical, encodedSlash: .refuse) }
        let text: String? =
            switch outcome {
            case .same: sentPath
            case .rewritten: canonical.readable.text
            case .refused: nil
            }
        guard let text, text.hasPrefix(path + "/") else { return nil }
        return UUID(parsing: String(text.dropFirst(path.count + 1)))
    }

    /// The caller's session; nil without a bearer. The gate has verified the token, and that no actor sent it; here it must
    /// be one of a session of ours, which tokens of other issuers and minted ones are not.
    func session(in dialect: Dialect) throws -> CallerSession? {
        guard let identity else { return nil }
        guard identity.isOwn, let user = UUID(parsing: identity.userID), let session = UUID(parsing: identity.sessionID)
        else { throw Failure(.unauthorized(.token(.wrongIssuer)), in: dialect) }
        return CallerSession(user: user, session: session)
    }

    /// The caller's session, at endpoints that ask for one.
    func requiredSession(in dialect: Dialect) throws -> CallerSession {
        guard let session = try session(in: dialect) else { throw Failure(.unauthorized(.missing), in: dialect) }
        return session
    }
}
