internal import Synchronization

/// The server that a gateway takes for the primary of its database, for the pool and the listener together: what one connection learns
/// moves all of them. A connection belongs to a term and is replaced once that is over, so that none goes on reading from a former primary.
package final class DatabasePrimary: Sendable {
    private struct Known {
        var epoch: ServerEpoch?
        var watchers: [@Sendable () -> Void] = []
    }

    private let terms = Atomic<UInt64>(0)
    private let known = Mutex(Known())

    /// Of a database that is no server it says nothing.
    package init() {}

    /// The number of the term that is in progress.
    var term: UInt64 { terms.load(ordering: .acquiring) }

    /// Calls `moved` when a term is over. Any thread; it must not block.
    func watch(_ moved: @escaping @Sendable () -> Void) { known.withLock { $0.watchers.append(moved) } }

    /// A connection of this term found that its server takes no writes. Of many that find it at once the first one ends the term.
    func lost(in term: UInt64) {
        guard terms.compareExchange(expected: term, desired: term + 1, ordering: .acquiringAndReleasing).exchanged else { return }
        for moved in known.withLock({ $0.watchers }) { moved() }
    }

    /// The term of a new connection, which was opened in `term`, to a server of this epoch; nil if another server was promoted after that
    /// one. A later epoch ends the term.
    func accepts(_ epoch: ServerEpoch?, in term: UInt64) -> UInt64? {
        guard let epoch else { return term }
        enum Rank { case older, same, newer }
        let rank = known.withLock { known -> Rank in
            defer { if known.epoch?.follows(epoch) != true { known.epoch = epoch } }
            guard let before = known.epoch else { return .same }
            return before.follows(epoch) ? .older : epoch.follows(before) ? .newer : .same
        }
        switch rank {
        case .older: return nil
        case .same: return term
        case .newer:
            lost(in: term)
            return term + 1
        }
    }

    /// Connects to the first server of the URL that takes writes and is not older than one met before.
    func connect(
        _ url: String, _ schema: PostgresSchema, place: String? = nil, statements: PreparedStatements = PreparedStatements()
    ) throws(SQLFault) -> PostgresConnection {
        var left: RemainingHosts?
        while true {
            let term = term
            let connection = try PostgresConnection(url: url, schema: schema, place: place, statements: statements, at: left)
            if let term = accepts(connection.epoch, in: term) {
                connection.term = term
                return connection
            }
            guard let next = connection.serversLeft else {
                throw .lost("PostgreSQL: the server is a former primary, another one was promoted after it and has newer changes")
            }
            left = next
        }
    }
}

/// Where a server stands in the history of its database: each promotion begins a timeline with the next number.
struct ServerEpoch: Sendable, Equatable {
    /// The same for a server and all copies of its files.
    let system: Int64
    let timeline: Int64

    /// Whether this server was promoted after that one. Databases of different origin do not compare.
    func follows(_ other: Self) -> Bool { system == other.system && timeline > other.timeline }
}
