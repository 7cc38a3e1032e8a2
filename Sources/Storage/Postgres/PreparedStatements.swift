internal import Synchronization

/// The names of prepared statements, the same on every connection of a process to one server: a pooler in transaction mode hands
/// a server connection from one client to another, and each name must then mean the same statement.
///
/// Such a pooler does not keep a client's prepared statements, so they are given up as soon as one is missing or there already.
final class PreparedStatements: Sendable {
    private let prefix = "tollgate_" + String(UInt64.random(in: 0 ... .max), radix: 36) + "_"
    private let names = Mutex<[StatementText: String]>([:])
    private let isGivenUp = Atomic(false)

    /// The name for a statement's text; nil once statements are sent without preparing them.
    func name(of sql: String) -> String? {
        if isGivenUp.load(ordering: .relaxed) { return nil }
        return names.withLock { names in
            if let known = names[StatementText(sql)] { return known }
            let name = prefix + String(names.count)
            names[StatementText(sql)] = name
            return name
        }
    }

    /// From now on statements are parsed each time they are sent.
    func giveUp() { isGivenUp.store(true, ordering: .relaxed) }
}
