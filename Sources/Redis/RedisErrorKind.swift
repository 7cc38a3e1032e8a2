import Wire

/// What an error reply says, by the word it begins with.
package enum RedisErrorKind: UInt8, Equatable, Sendable, CaseIterable {
    /// The server has no memory left for writes.
    case outOfMemory
    /// A replica, which takes no writes.
    case readOnly
    /// The server reads its data from disk.
    case loading
    /// A replica without its primary.
    case masterDown
    /// A script blocks the server.
    case busy
    /// The server cannot save and so takes no writes.
    case cannotPersist
    /// Fewer replicas than writes need.
    case tooFewReplicas
    /// The password is missing or wrong.
    case notAuthenticated
    /// The user may not do this.
    case notPermitted
    /// A node of a cluster that is down, or does not have the key.
    case cluster
    /// The script is not loaded; the connection loads it, so this is told only if that did not help.
    case noScript
    /// Anything else: the command itself is wrong, or meets a value that it cannot work on.
    case command

    /// Whether the server answers nobody for now, and not this one command: it counts as no answer.
    package var isOutage: Bool { self != .command }

    /// The kind of an error reply's text. Servers before Redis 7 wrap the errors that a script meets into one of their own.
    package init(_ text: RawSpan) {
        self = Self.kind(firstWordOf: text) ?? Self.kind(insideScriptError: text) ?? .command
    }

    private static func kind(firstWordOf text: RawSpan) -> RedisErrorKind? {
        let word = text.extracting(0..<(text.firstIndex(of: UInt8(ascii: " ")) ?? text.byteCount))
        for (prefix, kind) in words where word.equals(prefix) { return kind }
        return nil
    }

    /// `ERR Error running script (call to f_…): @user_script:1: -OOM command not allowed …`
    private static func kind(insideScriptError text: RawSpan) -> RedisErrorKind? {
        guard text.hasPrefix("ERR Error running script") else { return nil }
        var from = 0
        while let dash = text.firstIndex(of: UInt8(ascii: "-"), from: from) {
            if let kind = kind(firstWordOf: text.dropping(dash + 1)) { return kind }
            from = dash + 1
        }
        return nil
    }

    private static let words: [(StaticString, RedisErrorKind)] = [
        ("OOM", .outOfMemory), ("READONLY", .readOnly), ("LOADING", .loading), ("MASTERDOWN", .masterDown),
        ("BUSY", .busy), ("MISCONF", .cannotPersist), ("NOREPLICAS", .tooFewReplicas), ("NOAUTH", .notAuthenticated),
        ("WRONGPASS", .notAuthenticated), ("NOPERM", .notPermitted), ("CLUSTERDOWN", .cluster), ("MOVED", .cluster),
        ("ASK", .cluster), ("TRYAGAIN", .cluster), ("CROSSSLOT", .cluster), ("NOSCRIPT", .noScript),
    ]
}
