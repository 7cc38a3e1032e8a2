package import Accounts

/// An encrypted secret that gateways share. The database never sees the plaintext.
package struct SealedSecret: Sendable, Equatable {
    /// 1 for the first, incremented at each replacement.
    package let version: Int64
    package let sealed: [UInt8]
}

extension SQLStore {
    /// nil if there is no secret of this name.
    package func secret(_ name: String) async throws(StoreFault) -> SealedSecret? {
        try await database.read { sql throws(SQLFault) in
            guard var row = try sql.first("SELECT version, sealed FROM sealed_secrets WHERE name = $1", [.text(name)])
            else { return nil }
            return SealedSecret(version: try row.count(), sealed: try row.bytes())
        }
    }

    /// Replaces the secret of version `after`, 0 if there is none. Compare and swap: false if the version has changed.
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
