/// Where a story happens: the contracts alone with a clock that is set, or a gateway that runs.
public protocol StoryWorld: AnyObject {
    /// Seconds since 1970, and how far an answer may be off.
    var now: Int { get }
    var clockTolerance: Int { get }

    /// Sends a request; `fields` are whole header lines.
    func ask(_ method: String, _ target: String, _ fields: [String], _ body: [UInt8]) async throws -> StoryAnswer

    /// Lets so many seconds pass.
    func wait(seconds: Int) async throws

    /// The newest message to `recipient` that was not handed out before; nil if there is none.
    func message(to recipient: String) async throws -> StoryMessage?

    /// An ID token of `provider` with these claims as members of a JSON object.
    func idToken(_ provider: String, _ claims: String) async throws -> String

    /// A token of the outside issuer that apps had before, for this subject: an access token, or a refresh token that it takes once.
    func outsideToken(_ kind: String, _ subject: String) async throws -> String

    /// An act of the operator or the environment: `tier USER premium 3600`, `grant USER TYPE ID`, `delete USER`, `store away`…
    func act(_ words: [String]) async throws
}

public struct StoryAnswer: Sendable {
    public var status: Int
    public var fields: [(name: String, value: String)]
    public var body: [UInt8]

    public init(status: Int, fields: [(name: String, value: String)], body: [UInt8]) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    public func value(of name: String) -> String? {
        fields.first { $0.name.lowercased() == name.lowercased() }?.value
    }
}

public enum StoryMessage: Sendable, Equatable {
    case code(String)
    case reset(String)
}

/// A step that this world cannot do: the rest of the story is run in another world.
public struct NotInThisWorld: Error {
    public init() {}
}
