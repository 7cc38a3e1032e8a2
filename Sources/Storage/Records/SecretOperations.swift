package import Accounts

/// A secret that gateways share, sealed: the database never sees what is inside.
package struct SealedSecret: Sendable, Equatable {
    /// Counts how often it was replaced, from 1.
    package let version: Int64
    package let sealed: [UInt8]
}

extension SQLStore {
    /// nil if there is none of this name.
    package func secret(_ name: String) async throws(StoreFault) -> SealedSecret? {
        try await database.read { sql throws(SQLFault) in
            guard var row = try sql.first("SELECT version, sealed FROM sealed_secrets WHERE name = $1", [.text(name)])
            else { return nil }
            return SealedSecret(version: try row.integer(), sealed: try row.bytes())
        }
    }

    /// Keeps a secret in place of that with the version `after`, 0 where there was none; false if somebody else was
    /// faster.
    package func keep(_ sealed: [UInt8], as name: String, after version: Int64) async throws(StoreFault) -> Bool {
        try await database.write { sql throws(SQLFault) in
            let values: [SQLValue] = [.text(name), .integer(version + 1), .bytes(sealed)]
            guard version > 0 else {
                return try sql.change(
                    .sealedSecret, "INSERT INTO sealed_secrets (name, version, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                    values) == 1
            }
            return try sql.change(
                .sealedSecret, "UPDATE sealed_secrets SET version = $2, sealed = $3 WHERE name = $1 AND version = $4",
                values + [.integer(version)]) == 1
        }
    }
}
