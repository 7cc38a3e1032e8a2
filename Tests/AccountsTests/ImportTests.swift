import Credentials
import Testing
import Wire

@testable import Accounts

/// Lines of an import, and what becomes of them.
@Suite struct ImportTests {
    private static let rules = ImportRules(tiers: ["free", "premium"], issuers: ["django"], idIssuer: "django")
    private static let id = "550e8400-e29b-41d4-a716-446655440000"

    private func read(_ line: String, _ rules: ImportRules = rules) throws(ImportFault) -> ImportedAccount {
        let bytes = Array(line.utf8)
        return try ImportedAccount(line: bytes.rawBytes, rules)
    }

    @Test func aWholeLineIsRead() throws {
        let account = try read(
            #"{"id":"\#(Self.id)","email":"Ada@Example.org","email_verified":true,"username":"ada","password_hash":"pbkdf2_sha256$1$x$yb9iKunqNijXRQKUvO6LoyiwVgfOzKs1+3gaWy8rzxc=","tier":"premium","tier_until":"2027-01-01T00:00:00Z","created_at":"2024-05-06T07:08:09.123456+00:00","identities":[{"provider":"apple","subject":"001.a"},{"provider":"django","subject":42}]}"#
        )
        #expect(account.id?.text == Self.id)
        #expect(account.email?.key == "ada@example.org")
        #expect(account.isEmailConfirmed)
        #expect(account.username?.text == "ada")
        #expect(account.passwordHash != nil)
        #expect(account.tier == "premium")
        #expect(account.tierUntil == ISO8601.parse("2027-01-01T00:00:00Z"))
        #expect(account.createdAt == ISO8601.parse("2024-05-06T07:08:09.123456Z"))
        #expect(account.identities.map { "\($0.source.name):\($0.subject)" } == ["apple:001.a", "django:42"])
    }

    @Test(arguments: [
        (#"{"id":"42"}"#, ["django:42"]), (#"{"id":42}"#, ["django:42"]), (#"{"id":"auth0|5f"}"#, ["django:auth0|5f"]),
        (#"{"email":"a@b.c"}"#, []), (#"{"id":"550e8400-e29b-41d4-a716-446655440000"}"#, []),
    ])
    func anIdThatIsNoUUIDIsAnIdentityOfTheOldIssuer(_ line: String, _ identities: [String]) throws {
        #expect(try read(line).identities.map { "\($0.source.name):\($0.subject)" } == identities)
    }

    @Test(arguments: ["\"!unusable\"", "\"\"", "\"!\"", "null"]) func whatDjangoWritesForNoPasswordIsNone(_ hash: String) throws {
        #expect(try read(#"{"email":"a@b.c","password_hash":\#(hash)}"#).passwordHash == nil)
    }

    @Test func theLowestTierIsNone() throws { #expect(try read(#"{"email":"a@b.c","tier":"free"}"#).tier == nil) }

    @Test(arguments: [
        ("", "the line is no JSON object"), ("[]", "the line is no JSON object"), ("{}", "the line has neither id nor email"),
        ("{", "the line is no JSON object"), (#"{"email":"a@b.c"}{}"#, "the line is no JSON object"),
        ("\u{1F}", "the line is no JSON object"),
        (#"{"email":"a@b.c","email":"a@b.d"}"#, "the line names a member twice"), (#"{"email":7}"#, "email must be a string"),
        (#"{"email":"nobody"}"#, "email is no email address"), (#"{"id":true}"#, "id must be a string"),
        (#"{"id":""}"#, "id is no name of 1 to 255 bytes"),
        (#"{"id":4.5}"#, "id must be a string"), (#"{"email":"a@b.c","email_verified":"yes"}"#, "email_verified must be true or false"),
        (#"{"id":"1","email_verified":true}"#, "email_verified needs an email"),
        (#"{"email":"a@b.c","tier":"gold"}"#, "tier is none of free, premium"),
        (#"{"email":"a@b.c","tier_until":"2027-01-01T00:00:00Z"}"#, "tier_until needs a tier above free"),
        (#"{"email":"a@b.c","created_at":"yesterday"}"#, "created_at is no time in UTC, write one like 2027-01-01T00:00:00Z"),
        (
            #"{"email":"a@b.c","pasword_hash":"x"}"#,
            "pasword_hash is no field of an account, the fields are id, email, email_verified, username, password_hash, tier, tier_until, created_at, identities"
        ),
        (#"{"email":"a@b.c","identities":{}}"#, "identities must be an array"),
        (#"{"email":"a@b.c","identities":[7]}"#, "an identity is no JSON object"),
        (#"{"email":"a@b.c","identities":[{"provider":"apple"}]}"#, "an identity has a provider and a subject"),
        (
            #"{"email":"a@b.c","identities":[{"provider":"myspace","subject":"1"}]}"#,
            "the provider of an identity is none of apple, google, django"
        ),
        (
            #"{"email":"a@b.c","identities":[{"provider":"apple","subject":"1"},{"provider":"apple","subject":"1"}]}"#,
            "an identity stands there twice"
        ),
        (
            #"{"email":"a@b.c","identities":[{"provider":"apple","subject":"1","x":1}]}"#,
            "x is no field of an identity, the fields are provider and subject"
        ),
        (#"{"email":"a@b.c","username":"a\u0007"}"#, "username holds control characters or is longer than 256 bytes"),
    ])
    func aLineThatDescribesNoAccountSaysWhy(_ line: String, _ message: String) {
        #expect(throws: ImportFault(message: message)) { try read(line) }
    }

    @Test func aHashOfAnotherKindIsRefusedAndTheKindsAreNamed() {
        #expect(throws: ImportFault(message: "password_hash is of no kind that can be checked: \(PasswordHash.kinds)")) {
            try read(#"{"email":"a@b.c","password_hash":"md5$x$y"}"#)
        }
    }

    @Test func anIdentityMayBeOfAProviderThatIsSetUp() throws {
        let keycloak = try #require(Provider(rawValue: "keycloak"))
        let line = #"{"email":"a@b.c","identities":[{"provider":"keycloak","subject":"7"}]}"#
        let rules = ImportRules(tiers: ["free"], issuers: ["django"], providers: [keycloak], idIssuer: nil)
        #expect(try read(line, rules).identities == [IdentityKey(IdentitySource(keycloak), stored: "7")])
        #expect(throws: ImportFault(message: "the provider of an identity is none of apple, google, django")) { try read(line) }
        for name in ["", "Keycloak", "a-b", "provider:a", String(repeating: "a", count: 65)] { #expect(Provider(rawValue: name) == nil) }
    }

    @Test func withoutAnOldIssuerAnIdMustBeAUUID() {
        let rules = ImportRules(tiers: ["free"], issuers: [], idIssuer: nil)
        #expect(throws: ImportFault(message: "id is no UUID; name the outside issuer that it is of by --issuer NAME")) {
            try read(#"{"id":"42"}"#, rules)
        }
    }

    /// Tokens of the old issuer find the account by the identity, whatever the line with `tier-from=account` says of accounts.
    @Test func aUUIDIsAlsoASubjectOfTheIssuerThatIsMovingIn() throws {
        let id = "550e8400-e29b-41d4-a716-446655440000"
        let rules = ImportRules(tiers: ["free"], issuers: ["django"], idIssuer: "django", uuidIssuer: "django")
        for line in [#"{"id":"\#(id)"}"#, #"{"id":"\#(id)","identities":[{"provider":"django","subject":"\#(id)"}]}"#] {
            let read = try read(line, rules)
            #expect(read.id?.text == id && read.identities.map(\.subject) == [id])
            #expect(try self.read(line, ImportRules(tiers: ["free"], issuers: ["django"], idIssuer: "django")).id?.text == id)
        }
        #expect(try read(#"{"id":"42"}"#, rules).identities.map(\.subject) == ["42"])
    }

    @Test func aLineOfAnyBytesIsReadOrRefused() {
        var random = SplitMix64(seed: 3)
        let line = Array(#"{"id":"42","email":"a@b.c","identities":[{"provider":"apple","subject":"é"}]}"#.utf8)
        for _ in 0..<20_000 {
            var bytes = line
            for _ in 0...random.next() % 3 { bytes[Int(random.next() % UInt64(bytes.count))] = UInt8(truncatingIfNeeded: random.next()) }
            if random.next() % 4 == 0 { bytes.removeLast(Int(random.next() % UInt64(bytes.count))) }
            _ = try? ImportedAccount(line: bytes.rawBytes, Self.rules)
        }
    }

    // MARK: the rule

    private static func account(
        _ number: UInt64, email: String? = nil, openedBy: ContractID? = nil, hasPassword: Bool = false
    ) throws -> Account {
        let at = WallTime(seconds: 1_000)
        return Account(
            id: UUID(high: 0, low: number), openedBy: openedBy, createdAt: at, updatedAt: at, email: try email.map { try EmailAddress($0) },
            hasPassword: hasPassword)
    }

    @Test func aLineIsKnownByItsId() throws {
        let line = try read(#"{"id":"\#(Self.id)","email":"a@b.c"}"#)
        var holders = ImportHolders()
        #expect(ImportRule.verdict(line, holders) == .create)
        holders.byEmail = try Self.account(7, email: "a@b.c")
        #expect(ImportRule.verdict(line, holders) == .refuse(.emailTaken(by: UUID(high: 0, low: 7))))
        // Its owner may have another email by now, and another account the older one.
        holders.byID = try Self.account(9)
        #expect(ImportRule.verdict(line, holders) == .keep(UUID(high: 0, low: 9)))
    }

    @Test func aLineWithoutAnIdIsKnownByItsIdentities() throws {
        let line = try read(#"{"id":"42","email":"a@b.c"}"#)
        let key = line.identities[0]
        var holders = ImportHolders()
        holders.byIdentity = [.init(key: key, account: try Self.account(5, email: "a@b.c"))]
        holders.byEmail = holders.byIdentity[0].account
        #expect(ImportRule.verdict(line, holders) == .keep(UUID(high: 0, low: 5)))
        let other = try read(#"{"id":"\#(Self.id)","identities":[{"provider":"django","subject":"42"}]}"#)
        #expect(ImportRule.verdict(other, holders) == .refuse(.identityTaken(key, by: UUID(high: 0, low: 5))))
    }

    @Test func anAccountThatATierMadeGetsWhatTheLineBrings() throws {
        let line = try read(#"{"id":"42","email":"a@b.c"}"#)
        var holders = ImportHolders()
        holders.byIdentity = [.init(key: line.identities[0], account: try Self.account(5))]
        #expect(ImportRule.verdict(line, holders) == .complete(UUID(high: 0, low: 5)))
        #expect(ImportRule.verdict(try read(#"{"id":"42"}"#), holders) == .keep(UUID(high: 0, low: 5)))
        holders.byEmail = try Self.account(6, email: "a@b.c")
        #expect(ImportRule.verdict(line, holders) == .refuse(.emailTaken(by: UUID(high: 0, low: 6))))
    }

    /// A stranger who signed up with the email before the import must not own the imported account.
    @Test func aLineThatIsKnownByItsEmailIsNoStrangersAccount() throws {
        let line = try read(#"{"email":"a@b.c"}"#)
        var holders = ImportHolders()
        holders.byEmail = try Self.account(5, email: "a@b.c")
        #expect(ImportRule.verdict(line, holders) == .keep(UUID(high: 0, low: 5)))
        holders.byEmail = try Self.account(5, email: "a@b.c", openedBy: .password, hasPassword: true)
        #expect(ImportRule.verdict(line, holders) == .refuse(.emailTaken(by: UUID(high: 0, low: 5))))
    }
}
