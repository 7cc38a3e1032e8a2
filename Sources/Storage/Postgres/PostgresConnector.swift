internal import Glibc
internal import Synchronization
internal import Wire

/// State that the threads of a pool share about their server.
final class PostgresServer: Sendable {
    /// How long no connection is attempted after a failed one.
    private static let pause = Duration.milliseconds(250)
    private static let migrationPause = Duration.seconds(5)

    private let url: String
    private let schema: PostgresSchema
    let primary: DatabasePrimary
    /// Where the tables are, once that is known.
    private let place = Mutex<String?>(nil)
    /// Whether the schema is known to be up to date.
    let isPrepared = Atomic(false)
    private let statements = PreparedStatements()
    private let failure = Mutex<(until: ContinuousClock.Instant, fault: SQLFault)?>(nil)

    init(url: String, schema: PostgresSchema, primary: DatabasePrimary) {
        self.url = url
        self.schema = schema
        self.primary = primary
    }

    /// A new connection, in place of one whose process at the server was `abandoned`. That one is ended first: else each retry would hold
    /// one more connection of the server. While the server is unreachable, only one attempt per `pause` is made; other calls get its error.
    func connect(inPlaceOf abandoned: ServerProcess? = nil) throws(SQLFault) -> PostgresConnection {
        if let failure = failure.withLock({ $0 }), ContinuousClock.now < failure.until { throw failure.fault }
        do throws(SQLFault) {
            let connection = try primary.connect(url, schema, place: place.withLock { $0 }, statements: statements)
            if let abandoned { try connection.end(abandoned) }
            if !isPrepared.load(ordering: .acquiring) { try Schema.update(connection) }
            place.withLock { $0 = connection.place }
            isPrepared.store(true, ordering: .releasing)
            connection.marksCommits = true
            failure.withLock { $0 = nil }
            return connection
        } catch {
            // A migration that meets a lock queues everyone behind it while it waits: it leaves them time.
            let pause = if case .busy = error { Self.migrationPause } else { Self.pause }
            failure.withLock { $0 = (ContinuousClock.now.advanced(by: pause), error) }
            throw error
        }
    }
}

/// The connection of one thread, replaced when it breaks.
struct PostgresConnector {
    /// How often a transaction is tried that conflicts with others.
    private static let attempts = 20
    /// The writes of a shared transaction.
    private static let most = 64
    /// How long the outcome of a commit that was not answered is asked for: an orderly failover takes less.
    private static let patience = Duration.seconds(10)
    /// Between two such questions, in microseconds.
    private static let pause: UInt32 = 100_000

    private let server: PostgresServer
    private var connection: PostgresConnection?
    /// The process at the server of a connection that was given up.
    private var abandoned: ServerProcess?
    /// The writes of the next shared transaction, each of another session.
    private var waiting: [(session: UUID, write: GatheredWrite)] = []

    init(server: PostgresServer) { self.server = server }

    /// Adds a write of a session to the next shared transaction.
    mutating func gather(_ write: GatheredWrite, of session: UUID) {
        waiting.append((session, write))
        if waiting.count == Self.most { commit() }
    }

    /// Commits what waits, in one transaction. If one of several writes fails they all conflict, and none of them has taken place.
    mutating func commit() {
        if waiting.isEmpty { return }
        // By id, as all batches of sessions, so that no two wait for each other.
        let writes = waiting.sorted { $0.session < $1.session }.map(\.write)
        waiting = []
        do throws(SQLFault) {
            for answer in try run(isWriting: true, attempts: 1, { sql throws(SQLFault) in try sql.runTogether(writes) }) { answer() }
        } catch {
            var fault = error
            if case .lost = error {} else if writes.count > 1 { fault = .conflict }
            for write in writes { write.fail(fault) }
        }
    }

    /// Runs `body` as one transaction. Retries after a conflict, and on a new connection if a pooled one turns out to be broken. After
    /// a commit that was not answered, a new connection tells whether it took place; only if it did not, `body` runs again.
    mutating func run<Value>(
        isWriting: Bool, isDurable: Bool = true, attempts: Int = Self.attempts,
        _ body: (inout SQLTransaction) throws(SQLFault) -> Value
    ) throws(SQLFault) -> Value {
        var attempt = 1
        var doubtful = DoubtfulCommits<Value>()
        var deadline: ContinuousClock.Instant?
        while true {
            let wasOpen = connection != nil
            var value: Value?
            do throws(SQLFault) {
                let connection = try connected()
                return try connection.transaction(isWriting: isWriting) { sql throws(SQLFault) in
                    if !isDurable { connection.forgoDurability() }
                    let result = if let settled = try doubtful.settle(&sql) { settled } else { try body(&sql) }
                    value = result
                    return result
                }
            } catch {
                let mark = connection.flatMap { $0.mayHaveCommitted ? $0.mark : nil }
                if let broken = connection, broken.isBroken {
                    if broken.endsTerm { server.primary.lost(in: broken.term) }
                    abandoned = broken.abandoned
                    connection = nil
                }
                switch error {
                case .failed, .banned: throw error
                case .busy where doubtful.isEmpty: throw error
                case .conflict where doubtful.isEmpty:
                    guard attempt < attempts else { throw error }
                    // Random backoff, which grows: on a busy server many may meet again. This thread belongs to the pool and may sleep.
                    usleep(UInt32.random(in: 500...5_000) * UInt32(attempt))
                    attempt += 1
                case .lost, .busy, .conflict:
                    if let mark, let value { doubtful.add(mark, value) }
                    if doubtful.isEmpty {
                        guard wasOpen else { throw error }
                        continue
                    }
                    let end = deadline ?? .now.advanced(by: Self.patience)
                    deadline = end
                    // Neither a conflict nor a busy row: then it would be run again, without the marks that tell whether it took place.
                    guard .now < end else { throw .lost(error.reason) }
                    // As above, this thread may sleep.
                    usleep(Self.pause)
                }
            }
        }
    }

    private mutating func connected() throws(SQLFault) -> PostgresConnection {
        if let connection, connection.term == server.primary.term { return connection }
        // Closed before another one is opened.
        connection = nil
        let opened = try server.connect(inPlaceOf: abandoned)
        abandoned = nil
        connection = opened
        return opened
    }
}
