package import Accounts
package import Wire

extension SQLStore {
    package func switches() async throws(StoreFault) -> [LiveSwitch] {
        try await database.read(isBrief: true) { sql throws(SQLFault) in
            try sql.rows(
                """
                SELECT name, value, version, expires_at, since FROM live_switches
                WHERE expires_at IS NULL OR expires_at > \(sql.dialect.clock) ORDER BY name
                """, []
            ) { row throws(SQLFault) in
                LiveSwitch(
                    name: try row.text(), value: try row.text(), version: try row.integer(), expiresAt: try row.optionalTime(),
                    since: try row.optionalTime())
            }
        }
    }

    package func set(_ name: String, to value: String?, until: WallTime?, after: Int64?) async throws(StoreFault) -> Int64? {
        try await database.write { sql throws(SQLFault) in
            // One that has ended is not set any more.
            try sql.change(
                .unlogged, "DELETE FROM live_switches WHERE name = $1 AND expires_at <= (SELECT \(sql.dialect.clock))", [.text(name)])
            var row = try sql.first("SELECT version FROM live_switches WHERE name = $1\(sql.dialect.lockClause)", [.text(name)])
            let found = try row?.integer() ?? 0
            guard after == nil || after == found else { return nil }
            let version = try sql.logSwitches()
            guard let value else {
                try sql.change(.liveSwitch, "DELETE FROM live_switches WHERE name = $1", [.text(name)])
                return version
            }
            // A row that came meanwhile is of a gateway that set it at the same time.
            let isSet = try sql.change(
                .liveSwitch,
                """
                INSERT INTO live_switches (name, value, version, expires_at, since) VALUES ($1, $2, $3, $4, (SELECT \(sql.dialect.clock)))
                ON CONFLICT (name) DO UPDATE SET value = excluded.value, version = excluded.version, expires_at = excluded.expires_at
                WHERE live_switches.version = $5 OR CAST($6 AS BIGINT) = 0
                """,
                [.text(name), .text(value), .integer(version), .time(until), .integer(found), .integer(after == nil ? 0 : 1)])
            return isSet == 1 ? version : nil
        }
    }
}
