package import Accounts
internal import Wire

extension SQLStore {
    package func accounts(matching search: AccountSearch) async throws(StoreFault) -> AccountMatches {
        try await database.read { sql throws(SQLFault) in
            // One more than are returned, to see whether there are others.
            let limit = AccountSearch.most + 1
            var found = try sql.accounts(named: search, limit: limit)
            let oldest = try sql.floor(of: AccountSearch.depth)
            let known = Set(found.map(\.id))
            found += try sql.accounts(having: search, above: oldest, limit: limit).filter { !known.contains($0.id) }
            return AccountMatches(
                accounts: Array(found.prefix(AccountSearch.most)), isWhole: found.count <= AccountSearch.most && oldest == nil)
        }
    }
}

extension SQLTransaction {
    /// The accounts that a search names in full, by the indexes of the columns.
    fileprivate func accounts(named search: AccountSearch, limit: Int) throws(SQLFault) -> [Account] {
        try accounts(
            "WHERE id = $1 OR email_key = $2 OR username_key = $2 OR phone = $3 ORDER BY id DESC LIMIT $4",
            [.id(search.id), .text(search.key), .text(search.phone), .integer(Int64(limit))])
    }

    /// The id below which there are all but `count` accounts; nil if there are no more than that.
    fileprivate func floor(of count: Int) throws(SQLFault) -> UUID? {
        guard var row = try first("SELECT id FROM accounts ORDER BY id DESC LIMIT 1 OFFSET $1", [.integer(Int64(count))]) else {
            return nil
        }
        return try row.id()
    }

    /// The accounts that have the text of a search in part. Reads every account above `oldest` until there are enough.
    ///
    /// Emails and usernames are compared by their keys, which sign-in compares; the database's own folding, which depends on its locale,
    /// and that of ASCII alone serve for names. The columns are joined by newlines, which neither they nor the search may contain, so that no
    /// match spans two of them.
    fileprivate func accounts(having search: AccountSearch, above oldest: UUID?, limit: Int) throws(SQLFault) -> [Account] {
        let keys = ["email_key", "phone", "username_key"].map { "COALESCE(\($0), '')" }.joined(separator: " || '\n' || ")
        let name = "COALESCE(given_name, '') || ' ' || COALESCE(family_name, '')"
        let texts = [keys] + dialect.foldings.map { $0(name) }
        let spellings = search.spellings
        let conditions = spellings.indices.flatMap { index in texts.map { "\($0) LIKE $\(index + 3) ESCAPE '\\'" } }
        return try accounts(
            "WHERE id > $1 AND (\(conditions.joined(separator: " OR "))) ORDER BY id DESC LIMIT $2",
            [.id(oldest ?? UUID(high: 0, low: 0)), .integer(Int64(limit))] + spellings.map { SQLValue.text(Self.pattern($0)) })
    }

    /// The pattern of LIKE for a part, with its wildcards taken literally.
    private static func pattern(_ part: String) -> String {
        var pattern = "%"
        for character in part {
            if "\\%_".contains(character) { pattern += "\\" }
            pattern.append(character)
        }
        return pattern + "%"
    }
}
