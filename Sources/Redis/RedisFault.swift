import Wire

/// Why the connection failed. Its text is a clause: `the connection is refused`.
package enum RedisFault: Error, Equatable, Sendable {
    /// The name is not resolved.
    case noAddress
    /// Connect failed; the system's reason.
    case notReached(String)
    case handshakeFailed(String)
    /// No end of the TLS handshake within the connect timeout, in milliseconds.
    case handshakeNotInTime(UInt64)
    /// A command of the greeting failed; the server's text.
    case refused(RedisGreetingStep, String)
    /// Protocol error.
    case notUnderstood(String)
    /// The server closed the connection.
    case closed
    /// I/O error; the system's reason.
    case broken(String)
    /// Not serving within the connect timeout, in milliseconds.
    case notReadyInTime(UInt64)
    /// No reply to the oldest command within the response timeout, in milliseconds.
    case silent(UInt64)
    /// The name resolves to other addresses now.
    case moved
    /// The sentinels name no primary that could be confirmed.
    case noPrimary
    /// The sentinels name another server now.
    case replaced
    /// The node is none of the cluster's now.
    case otherNodes
    /// No node of the cluster is known yet.
    case noNode
    /// The server that the sentinels named is a replica.
    case notPrimary
    /// The gateway closed it.
    case ended
}

/// A command of the greeting.
package enum RedisGreetingStep: Equatable, Sendable {
    case authenticate
    case selectDatabase(UInt32)
    /// The script's name.
    case loadScript(String)
    case subscribe
    case role
}

extension RedisFault: CustomStringConvertible {
    /// The fault, with advice where the operator can act.
    package var description: String {
        switch self {
        case .noAddress: "its name has no address yet"
        case .notReached(let reason): reason
        case .handshakeFailed(let reason): "the TLS handshake failed: \(reason)\(reason == Self.noTLSAnswer ? Self.adviceOnTLS : "")"
        case .handshakeNotInTime(let milliseconds):
            "the TLS handshake took longer than \(DurationText.text(milliseconds))\(Self.adviceOnTLS)"
        case .refused(let step, let text): "\(step) is refused: \(text)\(Self.advice(text))"
        case .notUnderstood(let reason): "it does not speak Redis's protocol: \(reason)"
        case .closed: "it closed the connection"
        case .broken(let reason): "the connection broke: \(reason)"
        case .notReadyInTime(let milliseconds): "connecting and greeting took longer than \(DurationText.text(milliseconds))"
        case .silent(let milliseconds): "it has not answered for \(DurationText.text(milliseconds))"
        case .moved: "its name has other addresses now"
        case .noPrimary: "no primary is known"
        case .otherNodes: "the cluster has other nodes now"
        case .noNode: "no node of the cluster is known"
        case .replaced: "the sentinels name another primary"
        case .notPrimary: "it is a replica"
        case .ended: "the gateway ended the connection"
        }
    }

    /// Whether it may be that the server speaks no TLS. Redis reads the handshake as a command: unless there happens to be the end of a
    /// line in it, it waits for the rest.
    var hintsAtNoTLS: Bool {
        if case .handshakeNotInTime = self { return true }
        return self == .handshakeFailed(Self.noTLSAnswer)
    }

    /// OpenSSL's text for an answer in plain text.
    private static let noTLSAnswer = "wrong version number"
    private static let adviceOnTLS = "; if it speaks no TLS, its URL must begin with redis and not rediss"

    private static func advice(_ text: String) -> String {
        switch text.withRawBytes({ RedisErrorKind($0) }) {
        case .notAuthenticated: "; the URL must carry the server's password, and the user if it is not the default one"
        case .notPermitted: "; the user of the URL must have the rights that docs/several-gateways.md lists"
        case .outOfMemory, .readOnly, .loading, .masterDown, .busy, .cannotPersist, .tooFewReplicas, .cluster, .noScript,
            .command:
            ""
        }
    }
}

extension RedisGreetingStep: CustomStringConvertible {
    package var description: String {
        switch self {
        case .authenticate: "AUTH"
        case .selectDatabase(let number): "SELECT \(number)"
        case .loadScript(let name): "SCRIPT LOAD of \(name)"
        case .subscribe: "SUBSCRIBE"
        case .role: "ROLE"
        }
    }
}
