internal import Wire

/// The PostgreSQL schema of an installation (`TOLLGATE_DATABASE_SCHEMA`), and what keeps two installations in one database apart.
///
/// Installations from before the setting have their tables in a schema of the default search path and stay there.
struct PostgresSchema: Sendable, Equatable {
    /// The default of the setting. Under this name older installations are looked for, too.
    static let standard = "tollgate"

    let name: String

    init(_ name: String) { self.name = name }

    var findsOlder: Bool { name == Self.standard }

    /// The channel of notifications. Older installations have the channel of the default.
    var channel: String { findsOlder ? name : "tollgate_" + name }

    /// The key of the advisory lock of migrations: `tollgate` in ASCII, for other names mixed with them (FNV-1a).
    var lockKey: Int64 {
        let key: Int64 = 0x746F_6C6C_6761_7465
        return findsOlder ? key : name.utf8.reduce(key) { ($0 ^ Int64($1)) &* 0x100_0000_01B3 }
    }

    /// A name as an identifier in a statement.
    static func quoted(_ name: String) -> String { "\"" + name.replacing("\"", with: "\"\"") + "\"" }
}

/// The tables that tell an installation from another program's tables, which may have some of these names but not all.
enum OwnTables {
    static let telling = ["schema_versions", "ended_sessions", "actor_grants", "reset_tokens"]

    /// As a list of SQL.
    static let list = telling.map { "'\($0)'" }.joined(separator: ", ")
}
