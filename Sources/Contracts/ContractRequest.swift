import Accounts
import Credentials
import Gate
import HTTP
import Wire

/// A request at a contract's endpoint. Members of the wrong type are a 400 in the contract's dialect.
struct ContractRequest: Sendable {
    var caller: Caller
    /// Set where the endpoint takes proofs.
    var proof = ProvenKey() { didSet { proof.identify(&caller) } }
    let sent: LocalRequest
    private let body: RequestObject
    let dialect: Dialect

    /// An empty body counts as an object without members, and so does one that is not read.
    init(_ request: LocalRequest, in dialect: Dialect, readsBody: Bool = true) throws(Failure) {
        // Content in a GET request has no meaning (RFC 9110 §9.3.1).
        let hasBody = readsBody && !request.body.isEmpty && request.method != "GET" && request.method != "HEAD"
        do throws(RequestObject.Fault) {
            body = hasBody ? try RequestObject(request.body) : .empty
        } catch {
            throw .malformed(error.message, in: dialect)
        }
        caller = Caller(request)
        self.dialect = dialect
        sent = request
    }

    private var identity: LocalCaller? { sent.caller }

    /// The value of a parameter in the URL's query; nil if it is missing. The first, if there are several.
    func parameter(_ name: String) -> String? { FormText.pairs(Array(sent.query.utf8.dropFirst()))?.first { $0.name == name }?.value }

    /// The UUID that follows `path` and a slash in the request's path; nil if there is none.
    func id(below path: String) -> UUID? { segment(below: path).flatMap { UUID(parsing: $0) } }

    /// The segment that follows the last `path` and a slash in the request's path; nil if there is none, or more than one.
    func segment(below path: String) -> String? {
        var canonical = ByteBuffer()
        let outcome = sent.path.withRawBytes { CanonicalPath.canonicalise($0, into: &canonical, encodedSlash: .refuse) }
        let text: String? =
            switch outcome {
            case .same: sent.path
            case .rewritten: canonical.readable.text
            case .refused: nil
            }
        guard let text, let slash = text.lastIndex(of: "/"), text[..<slash].hasSuffix(path) else { return nil }
        let segment = text[text.index(after: slash)...]
        return segment.isEmpty ? nil : String(segment)
    }

    /// The caller's session; nil without a bearer. The gate has verified the token and refused actor tokens; tokens of other
    /// issuers and minted ones name no session of ours and are refused here.
    func session() throws(Failure) -> CallerSession? {
        guard let identity else { return nil }
        guard identity.isOwn, let user = UUID(parsing: identity.userID), let session = UUID(parsing: identity.sessionID)
        else { throw Failure(.unauthorized(.token(.wrongIssuer)), in: dialect) }
        return CallerSession(user: user, session: session)
    }

    /// The caller's session, at endpoints that require one.
    func requiredSession() throws(Failure) -> CallerSession {
        guard let session = try session() else { throw Failure(.unauthorized(.missing), in: dialect) }
        return session
    }
}

extension ContractRequest {
    /// A caller who may see an account and sign out.
    enum Person {
        case session(CallerSession)
        /// The bearer is of an outside issuer whose subjects stand for accounts.
        case outside(OutsideToken)

        var user: UUID {
            switch self {
            case .session(let session): session.user
            case .outside(let token): token.user
            }
        }
    }

    /// The caller at endpoints that also take the tokens of such issuers.
    func person() throws(Failure) -> Person {
        if let outside = identity?.outside {
            return .outside(OutsideToken(user: outside.account, id: outside.tokenID, expiresAt: outside.expiresAt))
        }
        return .session(try requiredSession())
    }

    /// The text of a member, or of a member of the object `parent`; nil if it is missing or `null`.
    func text(_ name: String, in parent: String? = nil) throws(Failure) -> String? {
        guard let parent else { return try read(try body.text(name)) }
        return try read(try body.object(parent)?.text(name))
    }

    /// A text that must be there and not be empty.
    func required(_ name: String) throws(Failure) -> String {
        guard let text = try text(name), !text.isEmpty else { throw .malformed("\(name) is required", in: dialect) }
        return text
    }

    /// An object as it was sent; nil if it is missing or `null`.
    func json(_ name: String) throws(Failure) -> [UInt8]? { try read(try body.json(name)) }

    func has(_ name: String) -> Bool { body.has(name) }

    private func read<Value>(_ value: @autoclosure () throws(RequestObject.Fault) -> Value) throws(Failure) -> Value {
        do throws(RequestObject.Fault) { return try value() } catch { throw .malformed(error.message, in: dialect) }
    }
}

extension Caller {
    init(_ request: LocalRequest) {
        self.init(
            address: request.client, device: request.value(of: "user-agent"), deviceName: request.value(of: "x-device-name"),
            languages: request.value(of: "accept-language"))
    }
}
