internal import Glibc
internal import Synchronization

/// State that the threads of a pool share about their server.
final class PostgresServer: Sendable {
    /// How long no connection is attempted after a failed one.
    private static let pause = Duration.milliseconds(250)

    let url: String
    /// Whether the schema is known to be up to date.
    let isPrepared = Atomic(false)
    private let failure = Mutex<(until: ContinuousClock.Instant, fault: SQLFault)?>(nil)

    init(url: String) { self.url = url }

    /// A new connection. While the server is unreachable, only one attempt per `pause` is made; other calls get its error.
    func connect() throws(SQLFault) -> PostgresConnection {
        if let failure = failure.withLock({ $0 }), ContinuousClock.now < failure.until { throw failure.fault }
        do throws(SQLFault) {
            let connection = try PostgresConnection(url: url)
            if !isPrepared.load(ordering: .acquiring) { try Schema.update(connection) }
            isPrepared.store(true, ordering: .releasing)
            failure.withLock { $0 = nil }
            return connection
        } catch {
            failure.withLock { $0 = (ContinuousClock.now.advanced(by: Self.pause), error) }
            throw error
        }
    }
}

/// The connection of one thread, replaced when it breaks.
struct PostgresConnector {
    /// How often a transaction is tried that conflicts with others.
    private static let attempts = 20

    private let server: PostgresServer
    private var connection: PostgresConnection?

    init(server: PostgresServer) { self.server = server }

    /// Runs `body` as one transaction. Retries after a conflict, and on a new connection if a pooled one turns out to be broken,
    /// but never once the commit may have reached the server.
    mutating func run<Value>(
        isWriting: Bool, _ body: (inout SQLTransaction) throws(SQLFault) -> Value
    ) throws(SQLFault) -> Value {
        var attempt = 1
        while true {
            let wasOpen = connection != nil
            let connection = try connected()
            do throws(SQLFault) {
                return try connection.transaction(isWriting: isWriting, body)
            } catch {
                if connection.isBroken { self.connection = nil }
                switch error {
                case .failed: throw error
                case .lost: guard wasOpen, !connection.mayHaveCommitted else { throw error }
                case .conflict:
                    guard attempt < Self.attempts else { throw error }
                    attempt += 1
                    // Random backoff. This thread belongs to the pool and may sleep.
                    usleep(UInt32.random(in: 500...5_000))
                }
            }
        }
    }

    private mutating func connected() throws(SQLFault) -> PostgresConnection {
        if let connection { return connection }
        let opened = try server.connect()
        connection = opened
        return opened
    }
}
