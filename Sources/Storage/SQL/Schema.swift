/// The schema, as a list of migrations. A released step never changes; a new one is added at the end.
enum Schema {
    /// The statements that migrate a database from version n to n + 1, where n is the step's index.
    typealias Step = @Sendable (SQLDialect) -> [String]

    static let steps: [Step] = [
        { _ in firstTables },
        { dialect in [sealedSecrets] + dialect.changeLog },
        { dialect in identityChanges + dialect.identityLog },
        { _ in outsideSessions },
        { dialect in dialect.commitMarks },
        { _ in signIns },
        { _ in origins },
        { _ in ["CREATE TABLE sweeps (id BIGINT PRIMARY KEY, at BIGINT NOT NULL)"] },
        { _ in ["CREATE INDEX audit_events_addresses ON audit_events (at) WHERE address IS NOT NULL"] },
        { _ in carriedSignIns },
        { dialect in purchases + dialect.grantLog },
        { _ in liveGateways },
        { _ in accountLives },
        { dialect in accountEvents + dialect.eventLog },
        { _ in mergeTimes },
        { _ in appleTokens },
        { _ in notices },
        { _ in accountDevices },
        { _ in liveSwitches },
        { _ in apiKeys },
        { _ in appVersions },
        { _ in ["ALTER TABLE accounts ADD COLUMN password_set_at BIGINT"] },
        { _ in passkeys },
        { _ in factors },
        { _ in deviceKeys },
        { _ in ["ALTER TABLE live_switches ADD COLUMN since BIGINT"] },
        { dialect in dialect.sessionRoom + sessionSweeps },
    ]
    static var newest: Int64 { Int64(steps.count) }

    /// Migrates the database to the newest version, in one transaction: a migration that fails leaves nothing. Takes no lock if there is
    /// nothing to migrate. Safe to run concurrently: one program migrates, the others wait for it.
    static func update(_ connection: any SQLConnection) throws(SQLFault) {
        if try connection.findTables() {
            let found = try connection.transaction(isWriting: false) { sql throws(SQLFault) in try known(version(sql)) }
            if found == newest { return }
        }
        try connection.transaction(isWriting: true) { sql throws(SQLFault) in
            try connection.lockSchema()
            try sql.change(.unlogged, "CREATE TABLE IF NOT EXISTS schema_versions (version BIGINT PRIMARY KEY)", [])
            // Another program may have migrated meanwhile.
            for version in try known(version(sql))..<newest {
                for statement in steps[Int(version)](sql.dialect) { try sql.change(.unlogged, statement, []) }
                try sql.change(.unlogged, "INSERT INTO schema_versions (version) VALUES ($1)", [.integer(version + 1)])
            }
        }
    }

    /// Throws for the version of a newer program.
    private static func known(_ version: Int64) throws(SQLFault) -> Int64 {
        guard version <= newest else {
            throw .failed("the database is at version \(version) and this program knows \(newest): run the newer program")
        }
        return version
    }

    /// 0 for a database without a step.
    static func version(_ sql: SQLTransaction) throws(SQLFault) -> Int64 {
        guard var row = try sql.first("SELECT MAX(version) FROM schema_versions", []) else { return 0 }
        return try row.optionalInteger() ?? 0
    }

    private static let sealedSecrets = """
        CREATE TABLE sealed_secrets (
            name TEXT PRIMARY KEY,
            version BIGINT NOT NULL,
            sealed BYTEA NOT NULL
        )
        """

    /// Set in changes of `ChangeKind.identity`.
    private static let identityChanges = [
        "ALTER TABLE changes ADD COLUMN identity_provider TEXT", "ALTER TABLE changes ADD COLUMN identity_subject TEXT",
    ]

    /// A session's address, and the author of an audit event; NULL in rows from before. The index of a later step is for the sweep, which
    /// erases old addresses.
    private static let origins = [
        "ALTER TABLE sessions ADD COLUMN address TEXT", "ALTER TABLE audit_events ADD COLUMN actor TEXT",
    ]

    /// Until now a session began with a sign-in, but for those that continue one of an outside issuer.
    private static let signIns = [
        "ALTER TABLE sessions ADD COLUMN signed_in_at BIGINT",
        """
        UPDATE sessions SET signed_in_at = created_at
        WHERE NOT EXISTS (SELECT 1 FROM adopted_tokens WHERE adopted_tokens.session = sessions.id)
        """,
    ]

    /// `CarriedSignIns`; NULL for credentials from before.
    private static let carriedSignIns =
        ["password", "email", "phone"].map { "ALTER TABLE accounts ADD COLUMN \($0)_carried_at BIGINT" }
        + ["ALTER TABLE identities ADD COLUMN carried_at BIGINT"]

    /// Purchases have no foreign keys: they outlive accounts, and stores tell of them before they are whole. The columns of `named` and
    /// of `status_`, `ended_payments` and `purchase_transfers` are registers; the columns behind `claimed` follow from them.
    private static let purchases = [
        // The grants of an account but the operator's, which are `tier` and `tier_until`.
        "ALTER TABLE accounts ADD COLUMN grants TEXT",
        """
        CREATE TABLE purchases (
            id BYTEA PRIMARY KEY,
            source TEXT NOT NULL,
            environment TEXT NOT NULL,
            original TEXT NOT NULL,
            named BYTEA,
            named_at BIGINT,
            named_told BIGINT,
            status_state TEXT,
            status_product TEXT,
            status_until BIGINT,
            status_renews BIGINT,
            status_transactions TEXT,
            status_start BIGINT,
            status_at BIGINT,
            status_paid_until BIGINT,
            status_paid_from BIGINT,
            claimed BYTEA,
            account BYTEA,
            state TEXT,
            ends_at BIGINT,
            product TEXT,
            tier TEXT,
            grace BIGINT,
            gives BIGINT NOT NULL,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            UNIQUE (source, environment, original)
        )
        """,
        "CREATE INDEX purchases_account ON purchases (account)",
        "CREATE INDEX purchases_named ON purchases (named)",
        "CREATE INDEX purchases_claimed ON purchases (claimed)",
        "CREATE INDEX purchases_product ON purchases (source, status_product, product, tier, grace)",
        "CREATE INDEX purchases_ends_at ON purchases (ends_at)",
        "CREATE INDEX purchases_state ON purchases (state, id)",
        // Which purchases a payment belongs to, of this period or an earlier one.
        """
        CREATE TABLE purchase_payments (
            source TEXT NOT NULL,
            environment TEXT NOT NULL,
            payment TEXT NOT NULL,
            purchase BYTEA NOT NULL,
            paid_from BIGINT NOT NULL,
            PRIMARY KEY (source, environment, payment, purchase, paid_from)
        )
        """,
        "CREATE INDEX purchase_payments_purchase ON purchase_payments (purchase, paid_from)",
        """
        CREATE TABLE ended_payments (
            source TEXT NOT NULL,
            environment TEXT NOT NULL,
            payment TEXT NOT NULL,
            state TEXT,
            at BIGINT NOT NULL,
            PRIMARY KEY (source, environment, payment)
        )
        """,
        // Those of merged accounts have an empty source: they are of all stores, and take what is named later, too.
        """
        CREATE TABLE purchase_transfers (
            giver BYTEA NOT NULL,
            at BIGINT NOT NULL,
            taker BYTEA NOT NULL,
            source TEXT NOT NULL,
            environment TEXT NOT NULL,
            PRIMARY KEY (giver, at, taker, source, environment)
        )
        """,
        "CREATE INDEX purchase_transfers_taker ON purchase_transfers (taker)",
        """
        CREATE TABLE store_events (
            id BYTEA PRIMARY KEY,
            source TEXT NOT NULL,
            event TEXT NOT NULL,
            type TEXT NOT NULL,
            environment TEXT NOT NULL,
            at BIGINT NOT NULL,
            received_at BIGINT NOT NULL,
            verdict TEXT NOT NULL,
            digest BYTEA NOT NULL,
            body BYTEA NOT NULL,
            UNIQUE (source, event)
        )
        """,
        "CREATE INDEX store_events_received_at ON store_events (received_at)",
        """
        CREATE TABLE store_event_purchases (
            event BYTEA NOT NULL REFERENCES store_events (id) ON DELETE CASCADE,
            purchase BYTEA NOT NULL,
            PRIMARY KEY (event, purchase)
        )
        """,
        "CREATE INDEX store_event_purchases_purchase ON store_event_purchases (purchase)",
        // A row of a source is locked by whatever changes its purchases.
        "CREATE TABLE purchase_sources (source TEXT PRIMARY KEY, newest_event_at BIGINT)",
        "INSERT INTO purchase_sources (source) VALUES ('apple'), ('google'), ('stripe'), ('revenuecat')",
        "CREATE TABLE leases (name TEXT PRIMARY KEY, holder BYTEA NOT NULL, ends_at BIGINT NOT NULL)",
    ]

    private static let liveSwitches = [
        "CREATE TABLE live_switches (name TEXT PRIMARY KEY, value TEXT NOT NULL, version BIGINT NOT NULL, expires_at BIGINT)"
    ]

    /// When the sweep looks at a session next, which is never after `idle_deadline`: a refresh moves that alone, so it changes no index. 0 in
    /// rows of the release before, which the next sweep sets: to do it here would lock a million sessions for half a minute.
    private static let sessionSweeps = [
        "ALTER TABLE sessions ADD COLUMN sweep_at BIGINT NOT NULL DEFAULT 0",
        "DROP INDEX sessions_idle_deadline",
        "CREATE INDEX sessions_sweep_at ON sessions (sweep_at)",
    ]

    private static let apiKeys = [
        """
        CREATE TABLE api_keys (
            id BYTEA PRIMARY KEY,
            name TEXT NOT NULL,
            prefix TEXT NOT NULL,
            digest BYTEA NOT NULL UNIQUE,
            tier TEXT NOT NULL,
            routes TEXT NOT NULL,
            rate TEXT,
            created_at BIGINT NOT NULL,
            ends_at BIGINT,
            last_used_at BIGINT,
            revoked_at BIGINT
        )
        """
    ]

    /// The census of apps: by day (since 1970) and version the requests, and a sketch of the users.
    private static let appVersions = [
        """
        CREATE TABLE app_versions (
            day BIGINT NOT NULL,
            gate TEXT NOT NULL,
            version TEXT NOT NULL,
            requests BIGINT NOT NULL,
            users BYTEA NOT NULL,
            PRIMARY KEY (day, gate, version)
        )
        """
    ]

    /// Gateways that serve requests, and the highest entry of the change log that each has acknowledged (`GatewayRecords`).
    private static let liveGateways = [
        "CREATE TABLE gateways (id BYTEA PRIMARY KEY, name TEXT NOT NULL, seen_at BIGINT NOT NULL, passed BIGINT NOT NULL)"
    ]

    private static let outsideSessions = [
        "ALTER TABLE accounts ADD COLUMN outside_ended_at BIGINT",
        "ALTER TABLE ended_sessions ADD COLUMN expires_at BIGINT",
        // No foreign keys: a token stays spent after its session, and a subject refused after its account.
        """
        CREATE TABLE adopted_tokens (
            digest BYTEA PRIMARY KEY,
            session BYTEA,
            account BYTEA NOT NULL,
            adopted_at BIGINT NOT NULL
        )
        """,
        """
        CREATE TABLE deleted_subjects (
            provider TEXT NOT NULL,
            subject TEXT NOT NULL,
            deleted_at BIGINT NOT NULL,
            PRIMARY KEY (provider, subject)
        )
        """,
    ]

    private static let firstTables = [
        """
        CREATE TABLE accounts (
            id BYTEA PRIMARY KEY,
            opened_by BIGINT,
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL,
            email TEXT,
            email_key TEXT UNIQUE,
            email_confirmed_at BIGINT,
            phone TEXT UNIQUE,
            phone_confirmed_at BIGINT,
            username TEXT,
            username_key TEXT,
            given_name TEXT,
            family_name TEXT,
            password_hash TEXT,
            metadata BYTEA NOT NULL,
            tier TEXT,
            tier_until BIGINT,
            tier_version BIGINT NOT NULL,
            tier_changed_at BIGINT
        )
        """,
        "CREATE INDEX accounts_username ON accounts (username_key)",
        "CREATE INDEX accounts_tier_changed ON accounts (tier_changed_at)",
        """
        CREATE TABLE identities (
            provider TEXT NOT NULL,
            subject TEXT NOT NULL,
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            linked_at BIGINT NOT NULL,
            PRIMARY KEY (provider, subject)
        )
        """,
        "CREATE INDEX identities_account ON identities (account)",
        """
        CREATE TABLE sessions (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            contract BIGINT NOT NULL,
            device TEXT,
            created_at BIGINT NOT NULL,
            last_used_at BIGINT NOT NULL,
            idle_deadline BIGINT NOT NULL,
            max_deadline BIGINT,
            counter BIGINT NOT NULL,
            is_confirmed BIGINT NOT NULL,
            rotated_at BIGINT NOT NULL,
            steps_since BIGINT NOT NULL,
            steps BIGINT NOT NULL
        )
        """,
        "CREATE INDEX sessions_account ON sessions (account)",
        "CREATE INDEX sessions_idle_deadline ON sessions (idle_deadline)",
        // No foreign key: access tokens stay refused after the account is deleted.
        """
        CREATE TABLE ended_sessions (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL,
            ended_at BIGINT NOT NULL,
            reason TEXT NOT NULL
        )
        """,
        "CREATE INDEX ended_sessions_ended_at ON ended_sessions (ended_at)",
        """
        CREATE TABLE codes (
            purpose TEXT NOT NULL,
            recipient TEXT NOT NULL,
            digest BYTEA NOT NULL,
            expires_at BIGINT NOT NULL,
            tries_left BIGINT NOT NULL,
            PRIMARY KEY (purpose, recipient)
        )
        """,
        "CREATE INDEX codes_expires_at ON codes (expires_at)",
        """
        CREATE TABLE reset_tokens (
            digest BYTEA PRIMARY KEY,
            email TEXT NOT NULL,
            email_key TEXT NOT NULL,
            expires_at BIGINT NOT NULL
        )
        """,
        "CREATE INDEX reset_tokens_email ON reset_tokens (email_key)",
        "CREATE INDEX reset_tokens_expires_at ON reset_tokens (expires_at)",
        """
        CREATE TABLE actor_grants (
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            actor_type TEXT NOT NULL,
            actor_id TEXT NOT NULL,
            granted_at BIGINT NOT NULL,
            PRIMARY KEY (account, actor_type, actor_id)
        )
        """,
        """
        CREATE TABLE audit_events (
            id BYTEA PRIMARY KEY,
            kind TEXT NOT NULL,
            at BIGINT NOT NULL,
            account BYTEA,
            session BYTEA,
            address TEXT,
            detail TEXT
        )
        """,
        "CREATE INDEX audit_events_account ON audit_events (account, id)",
    ]
}
