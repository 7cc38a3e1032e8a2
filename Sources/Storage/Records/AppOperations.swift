package import Accounts
internal import Wire

extension SQLStore {
    /// So many versions of a gate are kept of one day; others are added to those of `other`.
    private static let mostVersions = 1_000
    /// So many days are kept.
    private static let keptDays: Int64 = 8

    package func add(_ uses: [AppUse]) async throws(StoreFault) {
        let groups = Dictionary(grouping: AppUse.joined(uses).values) { AppUse.Key(day: $0.key.day, gate: $0.key.gate, version: "") }
        try await database.write { sql throws(SQLFault) in
            // In one order, so that gateways do not wait for each other in a circle.
            for group in groups.keys.sorted() {
                var known: [String: UserSketch] = [:]
                let rows = try sql.rows(
                    "SELECT version, users FROM app_versions WHERE day = $1 AND gate = $2 ORDER BY version\(sql.dialect.lockClause)",
                    [.integer(group.day), .text(group.gate)]
                ) { row throws(SQLFault) in (try row.text(), try row.bytes()) }
                for (version, users) in rows { known[version] = UserSketch(users) ?? UserSketch() }
                for use in (groups[group] ?? []).sorted(by: { $0.key < $1.key }) {
                    let isKept = known[use.key.version] != nil || known.count < Self.mostVersions
                    let version = isKept ? use.key.version : AppUse.other
                    var users = known[version] ?? UserSketch()
                    users.join(use.users)
                    known[version] = users
                    try sql.change(
                        .unlogged,
                        """
                        INSERT INTO app_versions (day, gate, version, requests, users) VALUES ($1, $2, $3, $4, $5)
                        ON CONFLICT (day, gate, version) DO UPDATE SET requests = app_versions.requests + excluded.requests, users = excluded.users
                        """,
                        [.integer(group.day), .text(group.gate), .text(version), .counter(use.requests), .bytes(users.registers)])
                }
            }
            guard let newest = groups.keys.map(\.day).max() else { return }
            try sql.change(.unlogged, "DELETE FROM app_versions WHERE day <= $1", [.integer(newest - Self.keptDays)])
        }
    }

    package func appUses(since day: Int64) async throws(StoreFault) -> [AppUse] {
        try await database.read { sql throws(SQLFault) in
            try sql.rows(
                "SELECT day, gate, version, requests, users FROM app_versions WHERE day >= $1 ORDER BY day, gate, version", [.integer(day)]
            ) { row throws(SQLFault) in
                let key = AppUse.Key(day: try row.integer(), gate: try row.text(), version: try row.text())
                return AppUse(key, requests: UInt64(clamping: try row.integer()), users: UserSketch(try row.bytes()) ?? UserSketch())
            }
        }
    }
}
