package import Wire

/// The state of a database as a look from outside finds it. The look changes nothing: unlike `SQLStore` it neither migrates the
/// schema nor creates a file.
package struct StoreInspection: Equatable, Sendable {
    /// The version of the schema; nil if there is none yet.
    package var version: Int64?
    /// The version that this program works with.
    package var newest: Int64
    /// The server's clock; nil for a file.
    package var clock: WallTime?
    /// Whether it is a server that replays another one and takes no writes.
    package var isStandby = false
    /// SQLite's; nil for a server.
    package var journalMode: String?
    /// The sealed secrets that gateways share there, by name.
    package var sealed: [(name: String, bytes: [UInt8])] = []

    package struct Fault: Error, Sendable {
        package let reason: String
    }

    package static func == (left: Self, right: Self) -> Bool {
        left.version == right.version && left.newest == right.newest && left.clock == right.clock && left.isStandby == right.isStandby
            && left.journalMode == right.journalMode && left.sealed.elementsEqual(right.sealed, by: ==)
    }

    package init(version: Int64?, newest: Int64) {
        self.version = version
        self.newest = newest
    }

    /// Looks at the database; a server that is away costs a few seconds. Blocks.
    package init(of location: StoreLocation) throws(Fault) {
        self.init(version: nil, newest: Schema.newest)
        do throws(SQLFault) {
            switch location {
            case .sqlite(let path): try look(at: SQLiteConnection(inspecting: path), path)
            case .postgres(let url, let schema): try look(at: PostgresConnection(url: url, schema: PostgresSchema(schema)))
            }
        } catch {
            switch error {
            case .conflict: throw Fault(reason: "it is busy")
            case .busy, .lost, .failed, .banned: throw Fault(reason: error.reason)
            }
        }
    }

    private mutating func look(at file: SQLiteConnection, _ path: String) throws(SQLFault) {
        var mode = try file.run("PRAGMA journal_mode", []).rows.first
        journalMode = SQLiteConnection.keepsWriteAheadLog(path) ? "wal" : try mode?.text()
        guard try file.findTables() else { return }
        try readSchema(SQLTransaction(file))
    }

    private mutating func look(at server: PostgresConnection) throws(SQLFault) {
        let question = """
            SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT), CAST(pg_is_in_recovery() AS INTEGER)
            """
        guard var row = try server.run(question, []).rows.first else { return }
        clock = try row.time()
        isStandby = try row.flag()
        guard try server.findTables() else { return }
        try server.transaction(isWriting: false) { sql throws(SQLFault) in try readSchema(sql) }
    }

    private mutating func readSchema(_ sql: SQLTransaction) throws(SQLFault) {
        version = try Schema.version(sql)
        // The second step of the schema makes the table.
        guard let version, version > 1 else { return }
        for var row in try sql.rows("SELECT name, sealed FROM sealed_secrets", []) {
            sealed.append((try row.text(), try row.bytes()))
        }
    }
}
