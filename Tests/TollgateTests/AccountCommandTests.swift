import Accounts
import Credentials
import MemoryStore
import Storage
import System
import TestThreads
import Testing
import Threads
import Wire
import class Foundation.Process
import struct Foundation.URL
import Workbench

@testable import tollgate

/// The commands over accounts as a shell sees them, on an SQLite file and with no gateway there.
@Suite(.ownThread) struct AccountCommandTests {
    private let folder: TemporaryFolder
    private let envFile: String
    /// The lines of commands so far; each runs a thousand seconds after the one before.
    private let lines = Mailboxes()
    private let start = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_800_000_000))
    private let password = "correct horse battery"
    private let django = "pbkdf2_sha256$1000$aSalt$jIVmoDR+X5ndBN2cvCQ1Mpo2zrP7rkfIT9h5XEl2dtI="
    private let nobody = "00000000-0000-4000-8000-000000000000"

    init() throws {
        folder = try TemporaryFolder()
        envFile = folder.path + "/a.env"
        try FileBytes.write(Array("TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_TIERS=free plus premium\n".utf8), to: envFile)
    }

    /// On a thread of its own: a command blocks until tasks have answered.
    private func run(_ words: [String], input: String = "") async throws -> CommandResult {
        var now = start
        now.wall = audit(1_000 * Int64(lines.all.count)).now
        lines.add(words.joined(separator: " "))
        let runner = CommandRunner(environment: [], now: now, readInput: { input })
        let line = words + ["--env-file", envFile]
        return try await withCheckedThrowingContinuation { continuation in
            do {
                _ = try WorkerThread(name: "command") { continuation.resume(returning: runner.run(line)) }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    private func run(_ line: String) async throws -> CommandResult { try await run(line.split(separator: " ").map(String.init)) }

    /// Creates an account; answers its id.
    @discardableResult
    private func create(_ email: String, _ more: [String] = []) async throws -> UUID {
        let words = ["user", "create", "--email", email, "--password-stdin", "--json"] + more
        let result = try await run(words, input: password + "\n")
        let id = try #require(result.output.wholeMatch(of: /\{"id":"([0-9a-f-]{36})".*\n/)?.1, "\(result.errorOutput)")
        return try #require(UUID(parsing: String(id)))
    }

    /// The store that the commands use.
    private func store() throws -> SQLStore {
        let store = try StoreLocation(url: "sqlite://\(folder.path)/accounts.db").open { name, body in
            do {
                let thread = try WorkerThread(name: name, body)
                return { thread.join() }
            } catch {
                return nil
            }
        }
        return try #require(store)
    }

    private func hash(of email: String) async throws -> String? {
        try await store().credential(for: .email(try EmailAddress(email)))?.hash
    }

    private func audit(_ seconds: Int64) -> AuditContext {
        AuditContext(now: WallTime(seconds: start.wall.seconds + seconds), address: nil)
    }

    private func newID(_ number: UInt64) -> UUID { UUID(high: number, low: 0x8000_0000_0000_0000) }

    // MARK: create

    @Test func aPasswordFromStandardInputIsHashedAndNeverShown() async throws {
        let words = ["user", "create", "--email", " Ada@Example.ORG ", "--password-stdin"]
        let result = try await run(words, input: password + "\n")
        #expect(result.exitCode == 0, "\(result.errorOutput)")
        #expect(result.output.wholeMatch(of: /Created the account [0-9a-f-]{36} of Ada@example.org, with the tier free\.\n/) != nil)
        let stored = try #require(try await hash(of: "ada@example.org"))
        #expect(stored.hasPrefix("$argon2id$"))
        #expect(try PasswordHash(parsing: stored)?.matches(Array(password.utf8).rawBytes) == true)
        let again = try await run(words, input: password)
        #expect(again.exitCode == 1)
        #expect(again.errorOutput == "tollgate: the email belongs to another account\n")
    }

    @Test func hashesOfDjangoAndOfArgon2AreTakenOver() async throws {
        let argon = try PasswordHash(of: Array(password.utf8).rawBytes, cost: Argon2Cost(kibibytes: 64, passes: 1, lanes: 1)).text
        for (email, hash) in [("django@example.org", django), ("argon@example.org", argon)] {
            let result = try await run(["user", "create", "--email", email, "--password-hash", hash])
            #expect(result.exitCode == 0, "\(result.errorOutput)")
            #expect(try await self.hash(of: email) == hash)
        }
    }

    @Test(arguments: [
        "secret", "", "$2b$15$abcdefghijklmnopqrstuuJ4cQ1JhV0Zb8Pq9mZ2yq1r0u8b8f9nG", "pbkdf2_sha1$1000$aSalt$jIVmoDR+X5ndBN2cvCQ1Mg==",
        "pbkdf2_sha256$1000$aSalt$short", "pbkdf2_sha256$999999999$aSalt$jIVmoDR+X5ndBN2cvCQ1Mpo2zrP7rkfIT9h5XEl2dtI=",
        "$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA", "!", "",
    ])
    func aHashThatCannotBeCheckedIsUnfit(_ hash: String) async throws {
        let result = try await run(["user", "create", "--email", "a@example.org", "--password-hash", hash])
        #expect(result.exitCode == 2)
        #expect(result.errorOutput.hasPrefix("tollgate: --password-hash is of no supported kind, give Django's pbkdf2_sha256$"))
        #expect(hash.isEmpty || hash == "!" || !result.errorOutput.contains(hash))
    }

    @Test(arguments: [
        ("short", "This password is too short. It must contain at least 8 characters."), ("password123", "This password is too common."),
        ("83749283749", "This password is entirely numeric."), ("ada@example.org", "The password is too similar to the email."),
    ])
    func aWeakPasswordIsRefusedByTheContractsRules(_ weak: String, _ sentence: String) async throws {
        let result = try await run(["user", "create", "--email", "ada@example.org", "--password-stdin"], input: weak)
        #expect(result.exitCode == 1)
        #expect(result.errorOutput == "tollgate: \(sentence)\n")
        #expect(try await run("user list").output == "There are no accounts yet.\n")
    }

    @Test func usageErrorsSayWhatIsWrong() async throws {
        let stdin = ["--email", "a@example.org", "--password-stdin"]
        let cases: [([String], String, String)] = [
            (["--email", "ada"], "", "--email \"ada\" is no email, write one like ada@example.org"),
            ([], "", "`user create` needs --email EMAIL, or --id or --identity for an account without one"),
            (
                ["--id", "42"], "",
                "--id \"42\" is no UUID; the id at an outside issuer goes by --identity NAME:ID, NAME being its trust line's"
            ),
            (["--id", nobody, "--email-verified"], "", "--email-verified goes with --email EMAIL"),
            (["--identity", "apple"], "", "--identity \"apple\" has no colon, write NAME:SUBJECT, like apple:001234.abcd"),
            (["--identity", "myspace:1"], "", "--identity: the provider of an identity is none of apple, google"),
            (["--identity", "apple:1", "--identity", "apple:1"], "", "--identity: an identity stands there twice"),
            (stdin + ["--username", "a\u{7}"], password, "--username holds control characters or is longer than 256 bytes"),
            (["--email", "a@x"], "", "give the password by --password-stdin, or its hash by --password-hash HASH"),
            (stdin + ["--password-hash", django], "x", "give the password by --password-stdin, or its hash by --password-hash HASH"),
            (stdin, "", "standard input has no password, pipe one in"),
            (stdin, "\n", "standard input has no password, pipe one in"),
            (stdin, "grün\u{FFFD}zeug", "the password is not UTF-8, give it in that encoding"),
            (stdin, String(repeating: "x", count: 1_025), "the password is longer than 1024 bytes, choose a shorter one"),
            (stdin + ["--until", "2030-01-01T00:00:00Z"], password, "--until goes with --tier TIER"),
            (stdin + ["--tier", "gold"], password, "--tier \"gold\" names no tier, the tiers are free, plus, premium"),
            (
                stdin + ["--tier", "free", "--until", "2030-01-01T00:00:00Z"], password,
                "--until goes with a tier above free, which everyone has for good"
            ),
            (
                stdin + ["--tier", "plus", "--until", "2020-01-01T00:00:00Z"], password,
                "--until 2020-01-01T00:00:00.000Z is past, give a time to come"
            ),
        ]
        for (words, input, message) in cases {
            let result = try await run(["user", "create"] + words, input: input)
            #expect(result.exitCode == 2, "\(words)")
            #expect(result.output == "")
            #expect(result.errorOutput.hasPrefix("tollgate: \(message)\n"))
        }
        #expect(try await run("user list --json").output == "[]\n")
    }

    @Test func aTierAndAProvenEmailAreThereFromTheStart() async throws {
        let id = try await create("ada@example.org", ["--tier", "premium", "--until", "2030-01-01T00:00:00Z", "--email-verified"])
        let account = try #require(try await store().account(id))
        #expect(account.emailConfirmedAt != nil)
        #expect(account.openedBy == nil)
        #expect(account.entitlement.tier == "premium")
        let events = try await store().auditEvents(of: id, before: nil, limit: 10)
        #expect(events.map(\.kind) == [.tierChanged, .emailConfirmed, .accountOpened])
        #expect(events.allSatisfy { $0.address == nil })
    }

    @Test func anAccountOfAnotherSystemKeepsItsIdAndIdentities() async throws {
        let words = ["user", "create", "--id", nobody, "--email", "ada@example.org", "--username", "ada", "--email-verified"]
        let result = try await run(words + ["--password-hash", django, "--identity", "apple:001.a", "--tier", "premium"])
        #expect(result.output == "Created the account \(nobody) of ada@example.org, with the tier premium.\n", "\(result.errorOutput)")
        let id = try #require(UUID(parsing: nobody))
        let account = try #require(try await store().account(id))
        #expect(account.emailConfirmedAt != nil && account.username?.text == "ada" && account.hasPassword && account.openedBy == nil)
        #expect(try await store().identities(of: id).map(\.key) == [IdentityKey(IdentitySource(.apple), stored: "001.a")])
        let taken = [
            (["--id", nobody], "the id belongs to another account"),
            (["--email", "Ada@Example.org", "--identity", "google:2"], "the email belongs to another account"),
            (["--identity", "apple:001.a"], "the identity apple:001.a belongs to another account, \(nobody)"),
            (["--email", "b@x", "--identity", "apple:001.a"], "the identity apple:001.a belongs to another account, \(nobody)"),
        ]
        for (words, message) in taken {
            let result = try await run(["user", "create"] + words)
            #expect(result.exitCode == 1 && result.errorOutput == "tollgate: \(message)\n", "\(words): \(result)")
        }
        #expect(try await run("user create --identity google:7").exitCode == 0)
    }

    // MARK: list

    @Test func accountsAreListedPageByPage() async throws {
        let ids = [
            try await create("a@example.org"), try await create("b@example.org", ["--email-verified"]), try await create("c@example.org"),
        ]
        let all = try await run("user list")
        #expect(all.exitCode == 0)
        let rows = all.output.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
        #expect(
            rows.map { $0.prefix(4).joined(separator: " ") } == [
                "ID EMAIL PROVEN TIER", "\(ids[0]) a@example.org no free", "\(ids[1]) b@example.org yes free",
                "\(ids[2]) c@example.org no free",
            ])
        let first = try await run("user list --limit 2")
        #expect(first.output.hasSuffix("\nThere are more: --after \(ids[1])\n"))
        #expect(!first.output.contains("c@example.org"))
        let second = try await run("user list --limit 2 --after \(ids[1])")
        #expect(second.output.contains("c@example.org"))
        #expect(!second.output.contains("b@example.org") && !second.output.contains("There are more"))
        let json = try await run("user list --json --limit 1")
        #expect(
            json.output.hasPrefix(
                #"[{"id":"\#(ids[0])","email":"a@example.org","has_password":true,"opened_by":"operator","created_at":"2027-01-15T"#))
        #expect(json.output.hasSuffix(#""tier":"free","has_active_subscription":false}]"# + "\n"))
        #expect(try await run("user list --json --after \(ids[2])").output == "[]\n")
    }

    @Test func theListFindsAnEmail() async throws {
        let id = try await create("a@example.org")
        try await create("b@example.org")
        let found = try await run("user list --email A@EXAMPLE.org")
        #expect(found.output.contains(id.text) && !found.output.contains("b@example.org"))
        let none = try await run("user list --email c@example.org")
        #expect(none.exitCode == 0)
        #expect(none.output == "There is no such account.\n")
        #expect(try await run("user list --email c@example.org --json").output == "[]\n")
    }

    @Test(arguments: [
        ("--limit 0", "--limit \"0\" is out of range, write a number from 1 to 1000"),
        ("--limit many", "--limit \"many\" is no whole number, write one from 1 to 1000"),
        ("--after ada", "--after \"ada\" is no id, give the last one of the list before"),
        ("--email ada", "--email \"ada\" is no email, write one like ada@example.org"),
    ])
    func aListIsAskedForInTheRightWords(_ words: String, _ message: String) async throws {
        let result = try await run("user list \(words)")
        #expect(result.exitCode == 2)
        #expect(result.errorOutput.hasPrefix("tollgate: \(message)\n"))
    }

    // MARK: tokens

    @Test func aTokenWithASessionIsTheAccountsAndEndsWithIt() async throws {
        let id = try await create("ada@example.org", ["--email-verified"])
        var tokens: [String] = []
        for name in ["ada@example.org", id.text] {
            let minted = try await run(["token", "mint", "--session", "--sub", name, "--ttl", "5h", "--json"])
            let found = try #require(
                minted.output.wholeMatch(of: /\{"token":"([^"]+)",.*"session_id":"([^"]+)"\}\n/), "\(minted.errorOutput)")
            tokens.append(String(found.1))
            let payload = try await run(["token", "inspect", String(found.1)]).output
            #expect(payload.contains("session  stands, of contract") && payload.contains("verdict  accepted"))
            #expect(payload.contains(#""sub":"\#(id.text)""#) && payload.contains(#""sid":"\#(found.2)""#))
            #expect(payload.contains(#""email":"ada@example.org","email_verified":true"#))
            let session = try await store().session(try #require(UUID(parsing: String(found.2))))
            #expect(session?.account.id == id)
            // Its end is remembered for as long as the token lives.
            #expect(EndedSession.life(of: session?.session?.contract) > 5 * 3_600)
        }
        #expect(try await run("user revoke ada@example.org").output == "2 sessions of ada@example.org ended.\n")
        // As the gateways refuse it from now on.
        for token in tokens {
            let ended = try await run(["token", "inspect", token])
            #expect(
                ended.exitCode == 1 && ended.output.contains("verdict  refused: revoked, The token's session has ended"), "\(ended.output)")
            let json = try await run(["token", "inspect", token, "--json"])
            #expect(
                json.exitCode == 1 && json.output.contains(#""accepted":false"#) && json.output.contains(#""reason":"revoked""#),
                "\(json.output)")
        }
    }

    @Test func aTokenWithASessionNeedsAnAccount() async throws {
        let none = try await run("token mint --session --sub ada@example.org")
        #expect(none.exitCode == 1)
        #expect(
            none.errorOutput
                == "tollgate: no account has the id or email \"ada@example.org\", `tollgate user create` makes one, and without --session a token needs none\n"
        )
        let tier = try await run("token mint --session --sub ada@example.org --tier premium")
        #expect(tier.exitCode == 2)
        #expect(
            tier.errorOutput.hasPrefix(
                "tollgate: --tier does not go with --session, which takes it from the account, set it by `tollgate user set-tier`\n"))
    }

    // MARK: show

    @Test func allThatIsKeptOfAnAccountIsShown() async throws {
        let (store, id, session) = (try store(), newID(1), newID(2))
        let proof = IdentityProof(
            provider: .apple, subject: "001234.abc", verifiedEmail: try EmailAddress("ada@example.org"),
            name: try PersonName(given: "Ada", family: "Lovelace"), nameRule: .first)
        let new = NewSession(id: session, contract: .provider, device: "App/1.0 (iPhone)", address: IPAddress(parsing: "192.0.2.7"))
        _ = try await store.signIn(proof, newUser: id, session: new, audit(-60))
        _ = try await store.grant(ActorName(type: "team", id: "42"), to: id, audit(-60))
        _ = try await store.setTier("premium", until: audit(3_600).now, of: id, audit(-60))
        let shown = try await run("user show ada@example.org")
        #expect(shown.exitCode == 0)
        let time = "2027-01-15T07:59:00.000Z"
        #expect(
            shown.output == """
                PART      WHAT
                id        \(id)
                email     ada@example.org, proven at \(time)
                name      Ada Lovelace
                password  none
                tier      premium until 2027-01-15T09:00:00.000Z, a subscription backs it
                opened    \(time) under the contract provider
                changed   \(time)
                identity  apple 001234.abc, linked at \(time)
                acts as   team 42

                SESSION                               CONTRACT  CREATED                   LAST USED                 ADDRESS    DEVICE
                \(session)  provider  \(time)  \(time)  192.0.2.7  App/1.0 (iPhone)

                """)
        let json = try await run(["user", "show", id.text, "--json"]).output
        #expect(
            json
                == #"{"id":"\#(id)","email":"ada@example.org","email_confirmed_at":"\#(time)","name":"Ada Lovelace","given_name":"Ada","family_name":"Lovelace","has_password":false,"opened_by":"provider","created_at":"\#(time)","updated_at":"\#(time)","tier":"premium","tier_until":"2027-01-15T09:00:00.000Z","has_active_subscription":true,"grants":[{"source":"operator","tier":"premium","until":"2027-01-15T09:00:00.000Z"}],"merges":[],"identities":[{"provider":"apple","subject":"001234.abc","linked_at":"\#(time)"}],"passkeys":[],"factors":[],"actors":[{"type":"team","id":"42"}],"sessions":[{"id":"\#(session)","contract":"provider","device":"App/1.0 (iPhone)","address":"192.0.2.7","created_at":"\#(time)","last_used_at":"\#(time)","expires_at":"2027-02-14T07:59:00.000Z"}],"metadata":{},"attributes":{}}"#
                + "\n")
    }

    @Test func aSecondFactorIsShownWithItsProof() async throws {
        let (store, id, session) = (try store(), newID(1), newID(2))
        let new = NewAccount(id: id, openedBy: .password, email: try EmailAddress("ada@example.org"))
        _ = try await store.open(new, session: NewSession(id: session, contract: .password, device: "App"), audit(-60))
        let caller = CallerSession(user: id, session: session)
        let factor = KeptFactor(id: newID(3), sealed: [1], createdAt: audit(-60).now)
        try await store.enrol(factor, by: caller, audit(-60)).get()
        #expect(try await run("user show ada@example.org --json").output.contains(#""factors":[],"#), "it waits for its first code")
        try await store.prove(.code(step: 100, of: factor.id, enrols: true), by: caller, audit(-60)).get()
        try await store.setBackupCodes([[1], [2]], by: caller, audit(-60)).get()
        let (shown, time) = (try await run("user show ada@example.org").output, "2027-01-15T07:59:00.000Z")
        #expect(shown.contains("factor    authenticator app, set up at \(time), backup codes left: 2\n"), "\(shown)")
        #expect(shown.contains("App, second factor proven at \(time)\n"), "\(shown)")
        let json = try await run("user show ada@example.org --json").output
        #expect(json.contains(#""factors":[{"type":"totp","created_at":"\#(time)","backup_codes":2}]"#), "\(json)")
        #expect(json.contains(#""factor_proven_at":"\#(time)""#), "\(json)")
    }

    @Test func aMergedAccountIsShownAsTheOther() async throws {
        let (store, ada, guest, session) = (try store(), newID(1), newID(2), newID(3))
        _ = try await store.open(
            NewAccount(id: ada, openedBy: .dlauth, email: try EmailAddress("ada@example.org")), session: nil, audit(-60))
        let held = NewSession(id: session, contract: .anonymous, device: nil)
        _ = try await store.open(NewAccount(id: guest, openedBy: .anonymous), session: held, audit(-60))
        _ = try await store.merge(Merging(guest: session, into: ada, by: nil, .none), audit(-60))
        let shown = try await run("user show \(guest)").output
        #expect(shown.contains("id        \(ada)\n") && shown.contains("merged    \(guest), announced until 2027-04-15T07:59:00.000Z\n"))
        #expect(
            try await run("user merge-done ada@example.org \(guest)").output
                == "The merge of \(guest) into ada@example.org is announced no longer.\n")
        #expect(try await store.standing(of: ada)?.merges == [])
        let refused = try await run("user merge-done ada@example.org \(ada)")
        #expect(refused.exitCode == 1 && refused.errorOutput.contains("no account of this id was merged into ada@example.org"))
    }

    @Test func metadataIsShownWithoutTerminalControlCharacters() async throws {
        var new = NewAccount(id: newID(1), openedBy: .dlauth, email: try EmailAddress("ada@example.org"), passwordHash: "hash")
        new.username = try Username("ada l.")
        new.metadata = try Metadata(json: Array("{\"a\":\"\u{9B}2J\"}".utf8).rawBytes)
        _ = try await store().open(new, session: nil, audit(-60))
        let shown = try await run("user show ada@example.org").output
        #expect(shown.contains("metadata  {\"a\":\"\\u009b2J\"}\n"))
        #expect(shown.contains("username  ada l.\n"))
        #expect(shown.contains("email     ada@example.org, not proven\n"))
        #expect(shown.hasSuffix("\nNo session is in use.\n"))
        #expect(try await run("user show ada@example.org --json").output.contains("\"metadata\":{\"a\":\"\\u009b2J\"}"))
    }

    // MARK: changes

    @Test func aTierIsSetByIdAndByEmail() async throws {
        let id = try await create("ada@example.org")
        let premium = try await run("user set-tier ada@example.org premium")
        #expect(premium.exitCode == 0)
        #expect(premium.output == "ada@example.org has the tier premium.\n")
        let plus = try await run("user set-tier \(id.text.uppercased()) plus --until 2030-01-01T00:00:00.5Z")
        #expect(plus.output == "ada@example.org has the tier plus until 2030-01-01T00:00:00.500Z.\n")
        let json = try await run("user set-tier \(id) plus --until 2030-01-01T00:00:00Z --json").output
        #expect(json.hasSuffix(#""tier":"plus","tier_until":"2030-01-01T00:00:00.000Z","has_active_subscription":true}"# + "\n"))
        #expect(try await run("user set-tier ada@example.org free").output == "ada@example.org has the tier free.\n")
        #expect(try await store().standing(of: id)?.entitlement == Entitlement(tier: nil, until: nil, version: 4))
        let events = try await store().auditEvents(of: id, before: nil, limit: 10)
        #expect(events.map(\.kind) == [.tierChanged, .tierChanged, .tierChanged, .tierChanged, .accountOpened])
        #expect(events.map(\.detail) == [nil, "plus", "plus", "premium", "operator"])
    }

    @Test func attributesAreSetFromJSON() async throws {
        _ = try await create("ada@example.org")
        let set = try await run(["user", "set-attributes", "ada@example.org", #"{"role": "editor"}"#])
        #expect(set.exitCode == 0 && set.output == #"The attributes are {"role":"editor"}."# + "\n")
        #expect(try await run("user show ada@example.org").output.contains(#"attributes  {"role":"editor"}"#))
        #expect(try await run("user show ada@example.org --json").output.contains(#""attributes":{"role":"editor"}"#))
        let wrong = try await run(["user", "set-attributes", "ada@example.org", "role=editor"])
        #expect(wrong.exitCode == 2 && wrong.errorOutput.contains("attributes must be one JSON object"))
    }

    @Test func aPurchaseThatGivesMoreIsNamedBesideTheOperatorsTier() async throws {
        let id = try await create("ada@example.org")
        let (key, end) = (PurchaseKey(.google, .production, "t"), audit(7_200).now)
        let status = PurchaseStatus(
            .active, product: "p", until: end, renews: true, transactions: [], periodStart: audit(0).now, at: audit(0).now)
        let lines = Products([ProductLine(name: "pro", tier: "premium", products: [.google: ["p"]], graceSeconds: nil)])
        let claimed = try await store().claim(key, [.status(key, status)], by: id, transfers: false, lines, audit(0))
        guard case .bound(let purchase, _, _) = claimed else { throw Unbound(outcome: claimed) }
        let grant = "premium until \(ISO8601.text(end)) by google, purchase \(purchase.id.text)"
        let set = try await run("user set-tier ada@example.org plus")
        #expect(set.output == "ada@example.org has the tier premium until \(ISO8601.text(end)).\n")
        #expect(set.errorOutput == "note: \(grant) goes on; only the operator's own grant was changed\n")
        let shown = try await run("user show ada@example.org").output
        #expect(shown.contains("grant     plus by operator\n") && shown.contains("grant     \(grant)\n"), "\(shown)")
        #expect(shown.contains("tier      premium until \(ISO8601.text(end)), a subscription backs it\n"))
    }

    @Test func aTierThatHasEndedOrIsGoneIsTheLowest() async throws {
        let id = try await create("ada@example.org")
        _ = try await store().setTier("premium", until: audit(-1).now, of: id, audit(-60))
        #expect(try await run("user show ada@example.org").output.contains("tier      free (premium ended at 2027-01-15T07:59:59.000Z)\n"))
        _ = try await store().setTier("gold", until: nil, of: id, audit(-60))
        #expect(try await run("user show ada@example.org --json").output.contains(#""tier":"free","has_active_subscription":false"#))
    }

    @Test(arguments: [
        ("gold", "\"gold\" names no tier, the tiers are free, plus, premium"),
        ("premium --until tomorrow", "--until \"tomorrow\" is no RFC 3339 time in UTC, write one like 2027-01-01T00:00:00Z"),
        ("premium --until 2030-01-01", "--until \"2030-01-01\" is no RFC 3339 time in UTC, write one like 2027-01-01T00:00:00Z"),
        ("premium --until 2027-01-15T08:00:00Z", "--until 2027-01-15T08:00:00.000Z is past, give a time to come"),
        ("free --until 2030-01-01T00:00:00Z", "--until goes with a tier above free, which everyone has for good"),
    ])
    func anInvalidTierIsRefused(_ words: String, _ message: String) async throws {
        let id = try await create("ada@example.org")
        let result = try await run("user set-tier ada@example.org \(words)")
        #expect(result.exitCode == 2)
        #expect(result.errorOutput.hasPrefix("tollgate: \(message)\n"))
        #expect(try await store().standing(of: id)?.entitlement == Entitlement.none)
    }

    @Test func revokingEndsTheSessionsAndDeletingTheAccount() async throws {
        let id = try await create("ada@example.org")
        func open(_ number: UInt64, at seconds: Int64) async throws {
            let stored = try #require(try await hash(of: "ada@example.org"))
            let new = NewSession(id: newID(number), contract: .password, device: nil)
            #expect(try await store().signIn(id, proof: PasswordProof(hash: stored), session: new, audit(seconds)) != nil)
        }
        try await open(1, at: 500)
        try await open(2, at: 600)
        #expect(try await run("user revoke ada@example.org").output == "2 sessions of ada@example.org ended.\n")
        #expect(
            try await run("user revoke \(id) --json").output
                == #"{"id":"\#(id)","email":"ada@example.org","deleted":false,"sessions_ended":0}"# + "\n")
        try await open(3, at: 2_500)
        #expect(
            try await run("user delete \(id)").output == "Deleted the account of ada@example.org; 1 session of ada@example.org ended.\n")
        #expect(try await run("user list").output == "There are no accounts yet.\n")
        let ended = try await store().endedSessions()
        #expect(ended.map(\.reason) == [.revoked, .revoked, .accountDeleted])
        let events = try await store().auditEvents(of: id, before: nil, limit: 10)
        #expect(
            events.map(\.kind) == [
                .accountDeleted, .accountClosed, .signedIn, .sessionEnded, .sessionEnded, .signedIn, .signedIn, .accountOpened,
            ])
    }

    @Test func anActorIsGrantedAndTakenBack() async throws {
        let id = try await create("ada@example.org")
        #expect(try await run("actor grant ada@example.org team 42").output == "ada@example.org may now act as team 42.\n")
        #expect(
            try await run("actor grant \(id) team 42 --json").output
                == #"{"id":"\#(id)","email":"ada@example.org","actor_type":"team","actor_id":"42","granted":true}"# + "\n")
        #expect(try await store().grants(of: id) == [ActorName(type: "team", id: "42")])
        #expect(try await run("actor revoke \(id) team 42").output == "ada@example.org may no longer act as team 42.\n")
        #expect(try await store().grants(of: id).isEmpty)
        let none = try await run("actor revoke \(id) team 42")
        #expect(none.exitCode == 1)
        #expect(none.errorOutput == "tollgate: ada@example.org may not act as team 42, `tollgate user show` lists the grants\n")
        let events = try await store().auditEvents(of: id, before: nil, limit: 10)
        #expect(events.map(\.kind) == [.actorRevoked, .actorGranted, .accountOpened])
        let unfit = try await run(["actor", "grant", "ada@example.org", "team", " 42"])
        #expect(unfit.exitCode == 2)
        #expect(
            unfit.errorOutput.hasPrefix("tollgate: TYPE and ID are 1 to 128 bytes each, without control characters or space around them\n"))
    }

    // MARK: users of outside issuers

    private func trust(_ lines: String...) throws {
        let text = (["TOLLGATE_DATA_DIR=\(folder.path)", "TOLLGATE_TIERS=free plus premium"] + lines).joined(separator: "\n")
        try FileBytes.write(Array((text + "\n").utf8), to: envFile)
    }

    @Test func aSubjectGetsItsTierAndItsAccount() async throws {
        try trust("TOLLGATE_TRUST_DJANGO=audience=any jwks=http://i/ tier-from=account")
        let set = try await run(["user", "set-tier", "django:a b/é:%", "premium", "--until", "2030-01-01T00:00:00Z"])
        #expect(set == CommandResult(output: "django:a b/é:% has the tier premium until 2030-01-01T00:00:00.000Z.\n"))
        let shown = try await run(["user", "show", "django:a b/é:%"])
        #expect(shown.output.contains("django a b/é:%, linked at") && shown.output.contains("premium until 2030"))
        #expect(try await run("user set-tier DJANGO:7 plus").output == "django:7 has the tier plus.\n")
        #expect(try await run("user set-tier django:7 free --json").output.contains(#""tier":"free""#))
        #expect(try await run("user delete django:7").exitCode == 0)
        let gone = try await run("user show django:7")
        #expect(gone == .failed(#"there is no account of "django:7", `tollgate user set-tier` makes one"#))
    }

    @Test func aSubjectOfNoLineOrOfOneWithoutAccountsIsSaid() async throws {
        try trust("TOLLGATE_TRUST_DJANGO=audience=any jwks=http://i/")
        let unknown = try await run("user set-tier djagno:7 premium")
        #expect(unknown == .failed(#""djagno:7": djagno names no TOLLGATE_TRUST_… line, they are django"#, exitCode: 2))
        let empty = try await run("user set-tier django: premium")
        #expect(empty.exitCode == 2 && empty.errorOutput.contains("a subject has 1 to 255 bytes"))
        let early = try await run("user set-tier django:7 premium")
        #expect(early.exitCode == 0 && early.output == "django:7 has the tier premium.\n")
        #expect(early.errorOutput == "note: TOLLGATE_TRUST_DJANGO has no tier-from=account, without which this tier has no effect\n")
    }

    /// An imported tier counts as one that a command has set.
    @Test func anImportedSubjectIsTheSameAccount() async throws {
        try trust("TOLLGATE_TRUST_DJANGO=audience=any jwks=http://i/ tier-from=account")
        let path = folder.path + "/people"
        try FileBytes.write(Array(#"{"id":"7","email":"a@x.org","tier":"premium"}"#.utf8), to: path)
        #expect(try await run(["user", "import", path]).output == "1 made, 0 kept, 0 refused.\n")
        #expect(try await run("user show django:7").output.contains("a@x.org"))
        #expect(try await run("user set-tier django:7 free").output == "django:7 has the tier free.\n")
        #expect(try await run("user show a@x.org").output.contains("tier      free"))
    }

    // MARK: faults of all

    @Test(arguments: [
        "user show USER", "user set-tier USER premium", "user revoke USER", "user delete USER", "actor grant USER team 1",
        "actor revoke USER team 1",
    ])
    func anUnknownUserIsAFailure(_ line: String) async throws {
        try await create("ada@example.org")
        for name in ["eve@example.org", nobody, "ada"] {
            let result = try await run(line.replacing("USER", with: name))
            #expect(result.exitCode == 1)
            #expect(result.output == "")
            #expect(result.errorOutput == "tollgate: no account has the id or email \"\(name)\", `tollgate user list` shows them\n")
        }
    }

    @Test func aStoreThatCannotBeOpenedIsAFailureWithTheReason() async throws {
        try FileBytes.write(Array(String(repeating: "no database ", count: 100).utf8), to: folder.path + "/accounts.db")
        let result = try await run("user list")
        #expect(result.exitCode == 1)
        #expect(result.errorOutput.hasPrefix("tollgate: the accounts cannot be opened: "))
        #expect(result.errorOutput.contains("not a database"))
    }

    @Test func aFileOfAnotherProgramIsRefusedByEveryCommand() async throws {
        let other = folder.path + "/django.sqlite3"
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('CREATE TABLE auth_user (id INT)')", other,
        ]
        try process.run()
        process.waitUntilExit()
        let text = "TOLLGATE_DATA_DIR=\(folder.path)\nDATABASE_URL=sqlite://\(other)\n"
        try FileBytes.write(Array(text.utf8), to: envFile)
        for words in ["user list", "check", "keys list", "explain GET /"] {
            let result = try await run(words)
            let told = result.errorOutput.contains("auth_user") && result.errorOutput.contains("TOLLGATE_DATABASE_URL")
            #expect(result.exitCode == 2 && told, "\(words): \(result.errorOutput)")
        }
    }

    @Test func theDatabaseOfTheConfigurationIsTheOne() async throws {
        let text = "TOLLGATE_DATA_DIR=\(folder.path)\nDATABASE_URL=sqlite://\(folder.path)/other.db\n"
        try FileBytes.write(Array(text.utf8), to: envFile)
        try await create("ada@example.org")
        #expect(TemporaryFolder.names(folder.path).contains("other.db"))
        #expect(!TemporaryFolder.names(folder.path).contains("accounts.db"))
    }

    @Test func purchasesAreNamedByTheirIDs() async throws {
        #expect(try await run("purchases list").output == "There is no such purchase.\n")
        #expect(try await run("purchases list --json").output == "[]\n")
        #expect(try await run("purchases list --account ada@example.org").exitCode == 1)
        for line in ["list --state x", "list --limit 0", "list --after x", "show x", "sync x", "replay x", "show"] {
            let result = try await run("purchases " + line)
            #expect(result.exitCode == 2 && result.output.isEmpty, "\(line)")
        }
        for (line, word) in [("show", "purchase"), ("sync", "purchase"), ("replay", "store event")] {
            let result = try await run("purchases \(line) \(nobody)")
            #expect(result.exitCode == 1 && result.errorOutput.contains("there is no \(word) with this id"), "\(result.errorOutput)")
        }
    }

    @Test func aPurchaseIsShownWithItsNotifications() {
        let now = WallTime(seconds: 1_800_000_000)
        var purchase = Purchase.sample(1, until: nil, at: now)
        purchase.product = nil
        let event = KeptStoreEvent(
            id: UUID(high: 1, low: 2), event: "e1", source: .apple, type: "REFUND", environment: .production, at: now, receivedAt: now,
            verdict: .unknownProduct, digest: [], body: Array("a secret body".utf8), purchases: [purchase.id])
        let text = PurchaseDetails(purchase: purchase, events: [event]).text
        for part in [
            "com.example.premium, which no TOLLGATE_PRODUCT_ line has", "without end", "none yet",
            "00000000-0000-0001-0000-000000000002  REFUND", "unknown-product",
        ] { #expect(text.contains(part), "\(text)") }
        #expect(!text.contains("secret"))
        #expect(PurchaseDetails(purchase: purchase, events: []).text.hasSuffix("No kept notification is about it.\n"))
    }

    @Test func aKeyThatNoRouteTakesIsMadeWithANote() async throws {
        let result = try await run("key create --name x --tier free")
        #expect(result.exitCode == 0 && result.output.hasPrefix("tg_"))
        #expect(result.errorOutput.hasSuffix("note: no route takes keys, write auth=key on one\n"))
    }

    @Test func aFaultyConfigurationIsReportedBeforeTheStoreIsOpened() async throws {
        try FileBytes.write(Array("TOLLGATE_DATA_DIR=\(folder.path)\nTOLLGATE_LOGS=x\n".utf8), to: envFile)
        let result = try await run("user list")
        #expect(result.exitCode == 2)
        #expect(result.errorOutput == "\(envFile):2: TOLLGATE_LOGS: is no setting, the nearest is TOLLGATE_LOG\n")
        #expect(!TemporaryFolder.names(folder.path).contains("accounts.db"))
    }
}

private struct Unbound: Error { let outcome: ClaimOutcome }
