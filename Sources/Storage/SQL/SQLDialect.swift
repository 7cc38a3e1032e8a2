/// The SQL that differs between databases; each database's folder defines one. All other statements are shared: they use
/// `$1` parameters, `RETURNING`, `ON CONFLICT`, and the types BIGINT, BYTEA and TEXT.
struct SQLDialect: Sendable {
    /// Expressions for a text in lower case: as the database folds, and ASCII letters alone.
    let foldings: [@Sendable (String) -> String]
    /// Appended to a SELECT whose rows the transaction is about to change.
    let lockClause: String
    /// The condition that a row is one of those that a query, given from its FROM on, finds in its table.
    let some: @Sendable (String) -> String
    /// Expression for the database's clock, in microseconds since 1970.
    let clock: String
    /// Whether that is one clock for all gateways, not the clock of the process that asks.
    let isClockShared: Bool
    /// The column of `changes` that orders readings of the change log.
    let changeMark: String
    /// Expression for the value of `changeMark` from which on no change of this server is visible yet, in the statement that has it.
    let changeEnd: String
    /// Expression for the values below that whose changes are not visible yet, as a text or NULL, and the condition under which a change
    /// `c` has one of those in `$2`; nil where there are none.
    let changesInProgress: (values: String, contain: String)?
    /// Expression for when the server started, in microseconds since 1970; it differs after a failover, when values of `changeMark` may
    /// be given out again.
    let serverStart: String
    /// Expression that tells gateways, at the end of the transaction, to read the change log; NULL where the database cannot.
    let notice: String
    /// Statements that create the table `changes` (id, kind, subject, at) and the triggers that write it for accounts, ended
    /// sessions and sealed secrets.
    let changeLog: [String]
    /// Statements that create the triggers that log the identities of outside issuers: when one is linked, unlinked or
    /// relinked, and when the tier of its account changes.
    let identityLog: [String]
    /// Statements that have the last of those fire for all grants of an account.
    let grantLog: [String]
    /// Statements that create `commit_marks` (see `CommitMark`); none where a commit is always answered.
    let commitMarks: [String]
    /// Statements that have each new entry of `audit_events` get its place among the events: at once, or 0 until its commit is seen.
    let eventLog: [String]
    /// Statements that leave room on the pages of `sessions` for the next version of a row.
    let sessionRoom: [String]
    let numbersEventsLater: Bool
}
