internal import Accounts
package import Credentials
package import HTTP
internal import Wire

/// One operation of the admin API: a method at a path, its description, and the function that answers it.
///
/// The table is the only list of operations: `AdminAPI` routes by it, and `/admin/api/openapi.json` is written from it. An operation
/// that answers with a record names its shape, from which its JSON and its schema follow.
package struct AdminOperation: Sendable {
    /// A parameter of the query.
    package struct Parameter: Sendable {
        let name: String
        let about: String
        var schema = JSONSchema.text

        package init(_ name: String, _ about: String, _ schema: JSONSchema = .text) {
            self.name = name
            self.about = about
            self.schema = schema
        }
    }

    /// A successful answer.
    package enum Success: Sendable {
        case json(JSONSchema)
        /// 204.
        case nothing
        /// Server-sent events; their names, each with the shape of its data.
        case events([(name: String, data: JSONSchema)])

        /// The schemas of its bodies.
        var schemas: [JSONSchema] {
            switch self {
            case .json(let schema): [schema]
            case .nothing: []
            case .events(let events): events.map(\.data)
            }
        }
    }

    /// The authorization that an operation requires. The admin token and the console's cookie authorize every operation.
    package enum Access: Sendable, Equatable {
        /// A token with this scope, too.
        case scope(AdminScope)
        /// Any token with scopes, too.
        case anyToken
        /// No token with scopes.
        case `operator`
        /// Everybody: no proof is needed; the operation itself looks at what was sent.
        case open

        /// The scopes, one of which a token needs, as the description lists them; nil if no proof is needed.
        var roles: [String]? {
            switch self {
            case .scope(let scope): [scope.rawValue]
            case .anyToken: []
            case .operator: ["operator"]
            case .open: nil
            }
        }
    }

    typealias Run = @Sendable (AdminAPI, AdminCall) async throws -> LocalResponse

    let method: String
    /// Below `/admin/api/`; a segment in braces stands for any.
    let path: String
    /// Unique, for generated clients.
    package let name: String
    let about: String
    let access: Access
    /// The shape of the segments in braces.
    let argument: JSONSchema
    let query: [Parameter]
    let body: JSONSchema?
    let success: Success
    /// The statuses of refusals that this operation has beside 400, 401, 403, 429 and 503.
    let refusals: [Int]
    let run: Run

    init(
        _ method: String, _ path: String, _ name: String, _ about: String, access: Access, argument: JSONSchema = .text,
        query: [Parameter] = [], body: JSONSchema? = nil, success: Success, refusals: [Int] = [], run: @escaping Run
    ) {
        self.method = method
        self.path = path
        self.name = name
        self.about = about
        self.access = access
        self.argument = argument
        self.query = query
        self.body = body
        self.success = success
        self.refusals = refusals
        self.run = run
    }

    /// An operation that answers with a value of this shape.
    package init<Answer: Sendable>(
        _ method: String, _ path: String, _ name: String, _ about: String, access: Access, argument: JSONSchema = .text,
        query: [Parameter] = [], body: JSONSchema? = nil, answers shape: Shape<Answer>, refusals: [Int] = [],
        run: @escaping @Sendable (AdminAPI, AdminCall) async throws -> Answer
    ) {
        self.init(
            method, path, name, about, access: access, argument: argument, query: query, body: body, success: .json(shape.schema),
            refusals: refusals
        ) { api, call in
            let answer = try await run(api, call)
            return .json { shape.write(answer, &$0) }
        }
    }

    /// The operations that need no more than the accounts and the gateway's counts. `AdminAPI` takes further ones.
    static let own = accounts + apiKeys + events + purchases + gateway + console + description

    /// The segments of its path.
    private var segments: [Substring] { path.split(separator: "/") }

    /// The names of the segments in braces.
    var arguments: [String] { segments.filter { $0.hasPrefix("{") }.map { String($0.dropFirst().dropLast()) } }

    /// The segments of a path that stand where this one has braces; nil if the path is another. Literal segments win over braces by
    /// their place in the table.
    func match(_ path: [String]) -> [String]? {
        let own = segments
        guard own.count == path.count else { return nil }
        var found: [String] = []
        for (segment, given) in zip(own, path) {
            if segment.hasPrefix("{") { found.append(given) } else if segment != given { return nil }
        }
        return found
    }
}

/// A request for an operation.
package struct AdminCall: Sendable {
    package let request: LocalRequest
    /// The segments that stand for the braces, as they were sent.
    package let arguments: [String]
    package let query: AdminQuery
    let actor: AdminActor
}

/// The caller, as far as it is proved.
package enum AdminActor: Sendable, Equatable {
    /// Nothing: only for operations that are open.
    case none
    /// The admin token, as the bearer.
    case token
    /// A token with scopes, as the bearer.
    case scoped(ScopedToken)
    /// The console's cookie.
    case console

    /// The author of changes, for the audit log; nil for the admin token, which is the API's own.
    var author: AuditActor? {
        switch self {
        case .none, .token: nil
        case .scoped(let token): .adminAPI(token: token.name)
        case .console: .console
        }
    }

    /// Throws 403 unless the caller's scopes include that of the operation.
    func mayUse(_ operation: AdminOperation) throws(AdminRefusal) {
        guard case .scoped(let token) = self else { return }
        let need: String
        switch operation.access {
        case .open, .anyToken: return
        case .scope(let scope):
            if token.scopes.contains(scope) { return }
            need = "the scope \(scope.rawValue)"
        case .operator: need = "the admin token"
        }
        throw AdminRefusal(403, "FORBIDDEN", "This needs \(need), the token \(token.name) has \(token.scopeText)")
    }
}

extension AdminOperation {
    /// The operation for a request and its arguments; throws 404 or 405.
    static func find(
        _ request: LocalRequest, in all: [AdminOperation]
    ) throws(AdminRefusal) -> (operation: AdminOperation, arguments: [String]) {
        let path = request.path.dropFirst(AdminAPI.path.count).split(separator: "/").map(String.init)
        let method = request.method == "HEAD" ? "GET" : request.method
        var allowed: [String] = []
        for operation in all {
            guard let arguments = operation.match(path) else { continue }
            if operation.method == method { return (operation, arguments) }
            if !allowed.contains(operation.method) { allowed.append(operation.method) }
        }
        guard !allowed.isEmpty else { throw AdminRefusal(404, "NOT_FOUND", "The admin API has no \(request.path)") }
        throw AdminRefusal(405, "METHOD_NOT_ALLOWED", "The method is not allowed here", [("Allow", allowed.joined(separator: ", "))])
    }
}
