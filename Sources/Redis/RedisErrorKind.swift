import Wire

/// Kind of an error reply, by its first word.
package enum RedisErrorKind: UInt8, Equatable, Sendable, CaseIterable {
    /// OOM: no memory left for writes.
    case outOfMemory
    /// READONLY: a replica.
    case readOnly
    /// LOADING: the server reads its data from disk.
    case loading
    /// MASTERDOWN: a replica without its primary.
    case masterDown
    /// BUSY: a script blocks the server.
    case busy
    /// MISCONF: the server cannot save, so it refuses writes.
    case cannotPersist
    /// NOREPLICAS: too few replicas for a write.
    case tooFewReplicas
    /// NOAUTH, WRONGPASS: the password is missing or wrong.
    case notAuthenticated
    /// NOPERM: the ACL forbids it.
    case notPermitted
    /// A cluster node that is down, or does not have the key.
    case cluster
    /// NOSCRIPT: the connection loads the script and repeats the call; reported only if that failed.
    case noScript
    /// Any other error: of the command itself, or of the value that it works on.
    case command

    /// Whether the server refuses all commands for now, not just this one: counts as no reply.
    package var isOutage: Bool { self != .command }

    /// Parses an error reply. Servers before Redis 7 wrap a script's error into one of their own.
    package init(_ text: RawSpan) {
        self = Self.kind(firstWordOf: text) ?? Self.kind(insideScriptError: text) ?? .command
    }

    /// Longer than each of `words`: of a longer first word no more is read, because an error may consist of dashes.
    private static let mostOfWord = 16

    private static func kind(firstWordOf text: RawSpan) -> RedisErrorKind? {
        let start = text.extracting(first: mostOfWord)
        let word = start.extracting(0..<(start.firstIndex(of: UInt8(ascii: " ")) ?? start.byteCount))
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
