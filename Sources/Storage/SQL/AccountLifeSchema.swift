/// The steps for the life of an account: bans, merges, events, devices, and what is sent when.
extension Schema {
    /// `Attributes`, `Ban`, the time of erasure, `Merge`, and what is known for mails; NULL in rows from before. The id of a merged account
    /// stands for the other one.
    static let accountLives =
        [
            "attributes BYTEA", "banned_at BIGINT", "banned_until BIGINT", "ban_reason TEXT", "erased_at BIGINT", "merges TEXT",
            "language TEXT", "mail_stopped_at BIGINT",
        ].map { "ALTER TABLE accounts ADD COLUMN \($0)" } + [
            "CREATE INDEX accounts_erased_at ON accounts (erased_at) WHERE erased_at IS NOT NULL",
            "ALTER TABLE sessions ADD COLUMN device_name TEXT",
            // No foreign keys: neither account may be there any more.
            """
            CREATE TABLE merged_accounts (
                id BYTEA PRIMARY KEY,
                account BYTEA NOT NULL,
                merged_at BIGINT NOT NULL,
                done_at BIGINT
            )
            """,
            "CREATE INDEX merged_accounts_account ON merged_accounts (account)",
        ]

    /// The place of an entry of the log among the events, which the dialect gives to all from now on, and how far each subscriber has got.
    static let accountEvents = [
        "ALTER TABLE audit_events ADD COLUMN position BIGINT",
        "ALTER TABLE audit_events ADD COLUMN new_device BIGINT",
        "CREATE UNIQUE INDEX audit_events_position ON audit_events (position) WHERE position > 0",
        "CREATE INDEX audit_events_account_position ON audit_events (account, position) WHERE position > 0",
        "CREATE TABLE event_subscribers (name TEXT PRIMARY KEY, position BIGINT NOT NULL, seen_at BIGINT NOT NULL)",
        // Of each account the first one that waits: those behind it, up to the subscriber's place, are read from the log.
        """
        CREATE TABLE event_deliveries (
            subscriber TEXT NOT NULL,
            position BIGINT NOT NULL,
            account BYTEA NOT NULL,
            failures BIGINT NOT NULL,
            failed_at BIGINT,
            next_at BIGINT NOT NULL,
            parked_at BIGINT,
            failure TEXT,
            is_away BIGINT NOT NULL,
            PRIMARY KEY (subscriber, position)
        )
        """,
        "CREATE UNIQUE INDEX event_deliveries_account ON event_deliveries (subscriber, account) WHERE parked_at IS NULL",
        "CREATE INDEX event_deliveries_next_at ON event_deliveries (subscriber, next_at) WHERE parked_at IS NULL",
    ]

    /// For the sweep: merges whose announcement, and whose ids, are over.
    static let mergeTimes = [
        "CREATE INDEX merged_accounts_announced ON merged_accounts (merged_at) WHERE done_at IS NULL",
        "CREATE INDEX merged_accounts_merged_at ON merged_accounts (merged_at)",
    ]

    /// Codes of Sign in with Apple and the tokens that they were exchanged for. `next_at` is NULL where Apple is not to be asked.
    static let appleTokens = [
        // No foreign key: it is revoked also after the account.
        """
        CREATE TABLE apple_tokens (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL,
            subject TEXT NOT NULL,
            client TEXT NOT NULL,
            sealed BYTEA NOT NULL,
            is_code BIGINT NOT NULL,
            kept_at BIGINT NOT NULL,
            revoked_at BIGINT,
            next_at BIGINT,
            tries BIGINT NOT NULL
        )
        """,
        "CREATE INDEX apple_tokens_account ON apple_tokens (account)",
        "CREATE INDEX apple_tokens_next_at ON apple_tokens (next_at) WHERE next_at IS NOT NULL",
    ]

    /// `KeptFactor`, keyed digests of backup codes, and when a session has proven either.
    static let factors = [
        """
        CREATE TABLE factors (
            account BYTEA PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
            id BYTEA NOT NULL,
            sealed BYTEA NOT NULL,
            created_at BIGINT NOT NULL,
            confirmed_at BIGINT,
            last_step BIGINT NOT NULL
        )
        """,
        """
        CREATE TABLE backup_codes (
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            digest BYTEA NOT NULL,
            PRIMARY KEY (account, digest)
        )
        """,
        "ALTER TABLE sessions ADD COLUMN factor_at BIGINT",
        "CREATE INDEX sessions_factor_at ON sessions (factor_at) WHERE factor_at IS NOT NULL",
    ]

    /// A mail that is to be sent at `due_at`; NULL once it was sent.
    static let notices = [
        """
        CREATE TABLE notices (
            id BYTEA PRIMARY KEY,
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            kind TEXT NOT NULL,
            recipient TEXT NOT NULL,
            language TEXT,
            device TEXT,
            address TEXT,
            at BIGINT NOT NULL,
            due_at BIGINT
        )
        """,
        "CREATE INDEX notices_account ON notices (account)", "CREATE INDEX notices_at ON notices (at)",
        "CREATE INDEX notices_due_at ON notices (due_at) WHERE due_at IS NOT NULL",
    ]

    /// The key that a session is bound to, and when a refresh without it was last noted.
    static let deviceKeys = [
        "ALTER TABLE sessions ADD COLUMN key_thumbprint BYTEA", "ALTER TABLE sessions ADD COLUMN key_refused_at BIGINT",
        "ALTER TABLE sessions ADD COLUMN key_counter BIGINT",
    ]

    /// `KnownDevice`, and when a session's access token was last seen.
    static let accountDevices = [
        "ALTER TABLE sessions ADD COLUMN seen_at BIGINT",
        """
        CREATE TABLE account_devices (
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            device TEXT NOT NULL,
            first_seen_at BIGINT NOT NULL,
            last_seen_at BIGINT NOT NULL,
            PRIMARY KEY (account, device)
        )
        """,
    ]

    /// `Passkey`, how many an account has, and `SpentProof`.
    static let passkeys = [
        "ALTER TABLE accounts ADD COLUMN passkeys BIGINT",
        """
        CREATE TABLE passkeys (
            credential BYTEA PRIMARY KEY,
            account BYTEA NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
            public_key BYTEA NOT NULL,
            algorithm TEXT NOT NULL,
            sign_count BIGINT NOT NULL,
            is_backup_eligible BIGINT NOT NULL,
            is_backed_up BIGINT NOT NULL,
            aaguid BYTEA NOT NULL,
            transports TEXT NOT NULL,
            name TEXT NOT NULL,
            created_at BIGINT NOT NULL,
            last_used_at BIGINT,
            carried_at BIGINT
        )
        """,
        "CREATE INDEX passkeys_account ON passkeys (account)",
        "CREATE TABLE spent_proofs (digest BYTEA PRIMARY KEY, ends_at BIGINT NOT NULL)",
        "CREATE INDEX spent_proofs_ends_at ON spent_proofs (ends_at)",
    ]
}
