import Testing

@testable import tollgate

/// The line after a failure that says what to do next.
@Suite struct NextStepTests {
    @Test(arguments: [
        (
            "a.env: cannot be read (no such file or directory), give the path of an env file", ["check", "--env-file", "a.env"],
            "next: `tollgate init FILE` writes one\n"
        ),
        (
            "tollgate: cannot read /d/keys/ring.pem: permission denied", ["token", "mint", "--sub", "ada"],
            "next: run it as the user of the gateway, to whom its files belong: sudo -u tollgate tollgate token mint --sub ada\n"
        ),
        (
            "tollgate: cannot listen on 127.0.0.1:8000: address already in use", ["serve"],
            "next: `ss -ltnp` names the process that listens there: end it, or set another address\n"
        ),
        (
            "tollgate: cannot listen on 127.0.0.1:80: permission denied", ["serve"],
            "next: ports below 1024 need the right to bind them, which the unit of the package gives (CAP_NET_BIND_SERVICE): set a higher port, or run it with that right\n"
        ),
        (
            "tollgate: cannot listen on unix:/run/t/t.sock: permission denied", ["serve"],
            "next: set a path in a folder that exists and that this user can write\n"
        ),
        (
            "tollgate: cannot listen on unix:/run/t/t.sock: no such file or directory", ["serve"],
            "next: set a path in a folder that exists and that this user can write\n"
        ),
        (
            "tollgate: cannot listen on unix:/run/t/t.sock: address already in use", ["serve"],
            "next: `ss -ltnp` names the process that listens there: end it, or set another address\n"
        ),
        (
            "tollgate: the accounts cannot be opened: SQLite: unable to open database file (14), permission denied, at: open /d/accounts.db",
            ["user", "list"], "next: run it as the user of the gateway, to whom its files belong: sudo -u tollgate tollgate user list\n"
        ),
        (
            "tollgate: the accounts cannot be opened: PostgreSQL: permission denied for schema public", ["user", "list"],
            "next: `tollgate doctor` looks at the database\n"
        ),
        (
            "tollgate: no gateway answers at 127.0.0.1:9090: Couldn't connect to server", ["health", "--env-file=a.env"],
            "next: `tollgate serve --env-file=a.env` starts one, and `tollgate doctor --env-file=a.env` says what it lacks\n"
        ),
        (
            "tollgate: the accounts cannot be opened: connection refused", ["user", "list", "--env-file", "a.env", "--env-file", "b.env"],
            "next: `tollgate doctor --env-file a.env --env-file b.env` looks at the database\n"
        ),
        (
            "tollgate: the signing keys cannot be read from the database: it does not answer in time", ["keys", "list"],
            "next: `tollgate doctor` looks at the database\n"
        ),
        (
            "tollgate: the signing keys cannot be read from the database: permission denied for table sealed_secrets", ["keys", "list"],
            "next: `tollgate doctor` looks at the database\n"
        ),
        (
            "tollgate: cannot write /d/keys/ring.pem: no space left on device", ["keys", "rotate"],
            "next: make room, then run it again; `df -h` names the file systems that are full\n"
        ),
        (
            "tollgate: cannot create the folder /d: read-only file system", ["token", "mint"],
            "next: set TOLLGATE_DATA_DIR to a folder that can be written\n"
        ),
    ])
    func aReasonThatIsKnownHasAStep(_ message: String, _ words: [String], _ line: String) {
        #expect(NextStep.line(after: message + "\n", words) == line)
    }

    @Test(arguments: [
        "tollgate: no account has the id or email \"ada\", `tollgate user list` shows them", "tollgate: the id belongs to another account",
        "tollgate: --tier gold is none of free and premium, write one of them",
        "a.env:1: TOLLGATE_LISTN: is no setting, the nearest is TOLLGATE_LISTEN", "",
    ])
    func aMessageThatSaysWhatIsRightHasNone(_ message: String) { #expect(NextStep.line(after: message, ["check"]) == nil) }
}
