import Credentials
import Testing
import Wire

@testable import Accounts

/// Normalisation and refusal of values that people and apps send.
@Suite struct ValueTests {
    @Test func aDeviceIsReadFromTheUserAgent() {
        let webKit = "AppleWebKit/605.1.15 (KHTML, like Gecko)"
        let readings = [
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) \(webKit) Chrome/126.0 Safari/537.36", "Chrome on Windows"),
            ("Mozilla/5.0 (Windows NT 10.0; Win64; x64) \(webKit) Chrome/126.0 Safari/537.36 Edg/126.0", "Edge on Windows"),
            ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) \(webKit) Version/17.5 Safari/605.1.15", "Safari on Mac"),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) \(webKit) CriOS/126.0 Safari/604.1", "Chrome on iPhone"),
            ("Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) \(webKit) Mobile/15E148", "iPhone"),
            ("Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0", "Firefox on Linux"),
            ("Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8)", "Android"), ("okhttp/4.12.0", "Android"),
            ("Passages/3.2 CFNetwork/1410.0.3 Darwin/22.6.0", "Passages on an Apple device"), ("curl/8.1", "curl"), ("Mozilla", "Mozilla"),
            (String(repeating: "x", count: 256), String(repeating: "x", count: 64)),
        ]
        for (agent, label) in readings { #expect(DeviceLabel.reading(agent) == label) }
    }

    @Test func thePasskeysOfAnAccountShareItsSignIns() {
        func bucket(_ id: UInt8, _ user: UInt64) -> AttemptBucket {
            AttemptBucket(
                signInBy: Passkey(
                    credentialID: [id], user: UUID(high: 0, low: user), publicKey: [], algorithm: .ES256, signCount: 0,
                    isBackupEligible: false, isBackedUp: false, aaguid: UUID(high: 0, low: 0), transports: [], name: "",
                    createdAt: WallTime(seconds: 0)))
        }
        #expect(bucket(1, 1) == bucket(2, 1) && bucket(1, 1) != bucket(1, 2))
    }

    @Test(
        "A logged change is between 0 and a day old, whatever time its row has",
        arguments: [(-5, 0), (7, 7), (Int64.min, 0), (.max, 86_400_000_000)] as [(Int64, Int64)])
    func aChangeIsAtMostADayOld(_ age: Int64, _ kept: Int64) {
        #expect(LoggedChange(id: 1, change: .secrets, age: age).age == kept)
    }

    @Test(arguments: [
        ("user@example.com", "user@example.com", "user@example.com"),
        ("  Ada.Lovelace@Example.COM\n", "Ada.Lovelace@example.com", "ada.lovelace@example.com"),
        ("e\u{301}te@x.org", "éte@x.org", "éte@x.org"), ("É@x.org", "É@x.org", "é@x.org"),
        ("user+tag@x", "user+tag@x", "user+tag@x"), ("o'brien@x.org", "o'brien@x.org", "o'brien@x.org"),
        ("ada@bücher.example", "ada@bücher.example", "ada@bücher.example"), ("a..b@x.org", "a..b@x.org", "a..b@x.org"),
        ("ada@x。Ｏｒｇ", "ada@x.org", "ada@x.org"), ("ada@ｘ．org", "ada@x.org", "ada@x.org"), ("ada@x｡org", "ada@x.org", "ada@x.org"),
        ("ａda@x.org", "ａda@x.org", "ａda@x.org"),
    ])
    func anEmailIsBroughtIntoOneForm(_ raw: String, _ text: String, _ key: String) throws {
        let email = try EmailAddress(raw)
        #expect(Array(email.text.utf8) == Array(text.utf8))
        #expect(Array(email.key.utf8) == Array(key.utf8))
    }

    @Test(arguments: [
        "", " ", "user", "@", "@x.org", "user@", " @x.org", "us er@x.org", "user@x .org", "user@x.org\u{0}", "us\ner@x.org",
        "us\u{7F}er@x.org", "<user@x.org>", "a,b@x.org", "\"a\"@x.org", String(repeating: "a", count: 249) + "@x.org",
        "us\u{2028}er@x.org",
        // Two addresses, or none.
        "a@b@c.org", "a@@b.org", "@@", "a@b.org@", "a@b.org,c@d.org", "Ada <a@b.org>", "a@b.org>", "(a)b@x.org", "a@[192.0.2.1]",
        "a:b@x.org", "a;b@x.org", "a\\b@x.org",
        // Empty labels.
        "a@.", "a@b..c", "a@.b", "a@b.", "a@..",
        // Invisible: zero width, bidi, soft hyphen, byte order mark, tags, variation selectors, fillers.
        "a\u{200B}b@x.org", "a\u{200D}b@x.org", "\u{FEFF}a@x.org", "a@x\u{00AD}y.org", "a@x\u{2060}.org", "\u{202E}a@x.org",
        "a\u{2066}b@x.org", "a\u{061C}@x.org", "a@x.org\u{E0061}", "a\u{FE0F}@x.org", "a\u{034F}@x.org", "a\u{3164}@x.org",
        "a\u{0600}@x.org", "a\u{180E}@x.org", "a\u{FFF9}@x.org", "a\u{9F}@x.org",
        // Domains that read as others: specials of full width, an empty label, ligatures, and letters in circles or of mathematics.
        "a@x＠y.org", "a@x（y.org", "a@x．.org", "a@o\u{FB03}ce.org", "a@\u{24D0}.org", "a@\u{1D41A}.org", "a@x\u{2460}.org", "a@\u{FF76}.org",
    ])
    func malformedEmailsAreRefused(_ raw: String) {
        #expect(throws: MalformedText.self) { try EmailAddress(raw) }
    }

    /// All of Unicode: no control or format character is accepted at any position of an address.
    @Test func noControlAndNoFormatCharacterStandsInAnAddress() {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .spaceSeparator:
                for text in ["a\(scalar)b@x.org", "ab@x\(scalar)y.org"] {
                    #expect(throws: MalformedText.self, "\(value)") { try EmailAddress(text) }
                }
            default: continue
            }
        }
    }

    /// Older ones may be spelled in ways that are no longer taken.
    @Test func aStoredAddressIsReadAsItIs() {
        #expect(EmailAddress(stored: "A@b@c..org").key == "a@b@c..org")
    }

    @Test func anEmailOf254BytesIsTheLongest() throws {
        #expect(try EmailAddress(String(repeating: "a", count: 248) + "@x.org").text.utf8.count == 254)
        #expect(throws: MalformedText.self) { try EmailAddress(String(repeating: "é", count: 125) + "@x.org") }
    }

    @Test(arguments: [("+49 (151) 234-567.89", "+4915123456789"), ("+1234567", "+1234567")])
    func aPhoneNumberIsPlusAndDigits(_ raw: String, _ text: String) throws { #expect(try PhoneNumber(raw).text == text) }

    @Test(arguments: ["", "+", "0151234567", "+0151234567", "+123456", "+1234567890123456", "+12a34567", "+1234567\u{0}", "+١٢٣٤٥٦٧٨"])
    func malformedPhoneNumbersAreRefused(_ raw: String) {
        #expect(throws: MalformedText.self) { try PhoneNumber(raw) }
    }

    @Test func namesAreTrimmedAndWithoutControlCharacters() throws {
        #expect(try PersonName(given: " Ada ", family: "")?.given == "Ada")
        #expect(try PersonName(given: " Ada ", family: "")?.family == nil)
        #expect(try PersonName(given: nil, family: " ") == nil)
        #expect(throws: MalformedText.self) { try PersonName(given: "A\u{0}", family: nil) }
        #expect(throws: MalformedText.self) { try PersonName(given: String(repeating: "a", count: 257), family: nil) }
        #expect(try Username(" Ada ")?.key == "ada")
        #expect(try Username("  ") == nil)
        #expect(throws: MalformedText.self) { try Username("a\nb") }
    }

    @Test(arguments: [
        (#"{}"#, #"{}"#), (#" { "a" : 1 } "#, #"{"a":1}"#),
        (#"{"firstName":"John","last_name":"Doe"}"#, #"{"firstName":"John","last_name":"Doe"}"#),
        (#"{"a":null}"#, #"{}"#), (#"{"a":null,"b":1,"c":null}"#, #"{"b":1}"#),
        (#"{"a":{"b":null,"c":[{"d":null}]}}"#, #"{"a":{"c":[{}]}}"#),
        (#"{"a":[null,1,null,[null]]}"#, #"{"a":[1,[]]}"#),
        (#"{"a":1e400,"b":-0.10,"c":true,"d":false}"#, #"{"a":1e400,"b":-0.10,"c":true,"d":false}"#),
        (#"{"a":"\u00e9\n\"\\","ä":""}"#, #"{"a":"é\n\"\\","ä":""}"#), (#"{"a":1,"a":2}"#, #"{"a":1,"a":2}"#),
        (#"{"null":"null"}"#, #"{"null":"null"}"#),
    ])
    func metadataIsKeptButForNulls(_ source: String, _ kept: String) throws {
        #expect(String(decoding: try metadata(source).json, as: UTF8.self) == kept)
    }

    @Test(arguments: [
        "", "null", "1", "[]", "\"x\"", "{", "{}x", #"{"a":}"#, #"{"a":"\u0000"}"#, #"{"\u0000":1}"#, #"{"a":"\ud800"}"#,
        String(repeating: #"{"a":"#, count: 40) + "1" + String(repeating: "}", count: 40),
    ])
    func metadataMustBeAnObject(_ source: String) {
        #expect(throws: Metadata.Fault.malformed) { try metadata(source) }
    }

    @Test func metadataHasABound() throws {
        let fits = #"{"a":""# + String(repeating: "x", count: 16 * 1_024 - 8) + #""}"#
        let tooMuch = #"{"a":""# + String(repeating: "x", count: 16 * 1_024 - 7) + #""}"#
        #expect(try metadata(fits).json.count == 16 * 1_024)
        #expect(throws: Metadata.Fault.tooLarge) { try metadata(tooMuch) }
    }

    @Test(arguments: [
        (#"{}"#, #"{"a":1,"b":{"c":[1,null]}}"#, #"{"a":1,"b":{"c":[1]}}"#), (#"{"a":1,"b":2}"#, #"{"a":null}"#, #"{"b":2}"#),
        (#"{"a":1,"b":2}"#, #" { "a" : "x" } "#, #"{"a":"x","b":2}"#), (#"{"a":1}"#, #"{"b":1,"b":2}"#, #"{"a":1,"b":2}"#),
        (#"{"a":1}"#, #"{"\u0061":null}"#, "{}"), (#"{"é":1}"#, #"{"e\u0301":2}"#, "{\"é\":1,\"e\u{301}\":2}"),
        ("{}", #"{"a":null}"#, "{}"),
    ])
    func attributesAreMergedByName(_ former: String, _ change: String, _ after: String) throws {
        let attributes = Attributes(stored: Array(former.utf8))
        #expect(try change.withRawBytes { try attributes.merging($0) }.json == Array(after.utf8))
    }

    @Test func attributesHaveABoundAndNoNameTwice() throws {
        func read(_ text: String) throws -> Attributes { try text.withRawBytes { try Attributes(json: $0) } }
        #expect(try read(#"{"a":1,"b":2,"a":3}"#).json == Array(#"{"a":3,"b":2}"#.utf8))
        #expect(try read(#"{"a":""# + String(repeating: "x", count: 4_088) + #""}"#).json.count == 4_096)
        for text in [#"{"a":""# + String(repeating: "x", count: 4_089) + #""}"#, #"{"a":null}"# + String(repeating: " ", count: 70_000)] {
            #expect(throws: Metadata.Fault.tooLarge) { try read(text) }
        }
        for text in ["", "[]", "null", #"{"a":1}x"#, #"{"a":"\u0000"}"#, #"{"a":1"#] {
            #expect(throws: Metadata.Fault.malformed) { try read(text) }
        }
    }

    private func metadata(_ text: String) throws -> Metadata {
        let bytes = Array(text.utf8)
        return try Metadata(json: bytes.rawBytes)
    }

    @Test func aTierCountsUntilItsEnd() {
        let end = WallTime(seconds: 1_000)
        let entitlement = Entitlement(tier: "premium", until: end, version: 3)
        let before = WallTime(microseconds: end.microseconds - 1)
        #expect(entitlement.tier(at: before, .none) == "premium")
        #expect(entitlement.tier(at: end, .none) == nil)
        #expect(entitlement.tier(at: end, graceSeconds: 1, .none) == "premium")
        #expect(entitlement.hasActiveSubscription(at: before))
        #expect(!entitlement.hasActiveSubscription(at: end))
        let given = Entitlement(tier: "premium", until: nil, version: 1)
        #expect(given.tier(at: end, .none) == "premium")
        #expect(!given.hasActiveSubscription(at: end))
        #expect(Entitlement.none.tier(at: end, .none) == nil)
    }

    /// Grants are a tier and the second of its end; the first one is the operator's.
    @Test func theHighestGrantInForceCounts() {
        typealias Row = (
            operator: (String?, Int64?), purchased: [(String, Int64?)], at: Int64, tier: String?, until: Int64?, subscribed: Bool
        )
        let rows: [Row] = [
            (("plus", nil), [("premium", 10)], 9, "premium", 10, true), (("plus", nil), [("premium", 10)], 10, "plus", nil, false),
            (("premium", nil), [("plus", 10)], 9, "premium", nil, true), ((nil, nil), [("plus", 10), ("plus", 20)], 5, "plus", 20, true),
            (("premium", 5), [("plus", 10)], 5, "plus", 10, true), ((nil, nil), [("plus", 10), ("premium", nil)], 5, "premium", nil, true),
            (("gone", nil), [("plus", 10)], 5, "plus", 10, true), (("gone", nil), [("plus", 10)], 10, "gone", nil, false),
            ((nil, nil), [("plus", 10)], 10, nil, nil, false),
        ]
        for row in rows {
            func time(_ seconds: Int64?) -> WallTime? { seconds.map { WallTime(seconds: $0) } }
            let purchased = row.purchased.map { Grant(source: "apple", key: "k", tier: $0.0, until: time($0.1)) }
            let entitlement = Entitlement(tier: row.operator.0, until: time(row.operator.1), version: 1, purchased: purchased)
            let now = WallTime(seconds: row.at)
            let grant = entitlement.grant(at: now, TierOrder(["free", "plus", "premium"]))
            #expect(grant?.tier == row.tier && grant?.until == time(row.until), "\(row)")
            #expect(entitlement.hasActiveSubscription(at: now) == row.subscribed, "\(row)")
            // The grace of tiers is that of all grants.
            let later = entitlement.grant(at: now.advanced(seconds: 5), graceSeconds: 5, TierOrder(["free", "plus", "premium"]))
            #expect(later == grant, "\(row)")
        }
    }

    @Test func theLongestAccessTokenIsThatOfAWeek() { #expect(SessionPolicy.maxAccessSeconds == 7 * 86_400) }
}

/// The rules for new passwords.
@Suite struct PasswordRuleTests {
    private func faults(_ text: String, _ rules: PasswordRules, email: String = "ada@example.com") -> [PasswordFault] {
        do {
            return rules.faults(of: try Password(text), email: try EmailAddress(email))
        } catch {
            return (error as? PasswordFault).map { [$0] } ?? []
        }
    }

    private func fault(_ text: String, _ rules: PasswordRules, email: String = "ada@example.com") -> PasswordFault? {
        faults(text, rules, email: email).first
    }

    @Test(
        arguments: [
            ("securepassword123", []), ("testpass123", []), ("correct horse battery", []), ("short", [PasswordFault.tooShort]),
            ("1234567", [.tooShort, .entirelyNumeric]), ("54321", [.tooShort, .tooCommon, .entirelyNumeric]),
            ("12345678", [.tooCommon, .entirelyNumeric]), ("password", [.tooCommon]), ("PassWord", [.tooCommon]),
            (" password1 ", [.tooCommon]),
            ("password123", [.tooCommon]), ("qwertyuiop", [.tooCommon]), ("8473629105", [.entirelyNumeric]),
            ("٨٤٧٣٦٢٩١٠٥", [.entirelyNumeric]),
            ("ada@example.com", [.sameAsEmail]), ("ADA@Example.com", [.sameAsEmail]), ("пароль", [.tooShort, .tooCommon]),
            ("123456789а", []), ("", [.tooShort]),
            (String(repeating: "x", count: 1_024), []), (String(repeating: "x", count: 1_025), [.tooLong]),
        ] as [(String, [PasswordFault])])
    func theStrictRulesAreThoseOfDjango(_ password: String, _ expected: [PasswordFault]) {
        #expect(faults(password, .strict) == expected)
    }

    @Test(
        arguments: [
            ("password123", nil), ("12345678", nil), ("ada@example.com", nil), ("1234567", PasswordFault.tooShort),
            (String(repeating: "x", count: 1_025), .tooLong),
        ] as [(String, PasswordFault?)])
    func otherwiseOnlyTheLengthCounts(_ password: String, _ expected: PasswordFault?) {
        #expect(fault(password, .length) == expected)
    }

    /// Characters are code points of the composed form (NFC), of which the bytes are counted too.
    @Test(
        arguments: [
            ("é", 7, PasswordFault.tooShort), ("é", 8, nil), ("e\u{301}", 7, .tooShort), ("e\u{301}", 8, nil), ("👍", 7, .tooShort),
            ("👍", 8, nil),
            ("각", 7, .tooShort), ("각", 8, nil), ("👨‍👩‍👧‍👦", 1, .tooShort), ("👨‍👩‍👧‍👦", 2, nil),
            ("é", 512, nil), ("é", 513, .tooLong), ("e\u{301}", 512, nil), ("e\u{301}", 513, .tooLong),
            // Composing takes this one apart.
            ("\u{958}", 170, nil), ("\u{958}", 171, .tooLong), ("e\u{301}", 20_000, .tooLong), ("\u{301}", 30_000, .tooLong),
        ] as [(String, Int, PasswordFault?)])
    func charactersAreCountedOnceTheyAreComposed(_ character: String, _ count: Int, _ expected: PasswordFault?) {
        #expect(fault(String(repeating: character, count: count), .length) == expected)
    }

    /// The forms of a password that are hashed, in order; the same number for every account.
    @Test(arguments: [
        ("password123", ["password123"]), ("caf\u{E9}", ["caf\u{E9}"]), ("cafe\u{301}", ["caf\u{E9}", "cafe\u{301}"]), ("", [""]),
        (String(repeating: "e\u{301}", count: 400), [String(repeating: "\u{E9}", count: 400)]),
    ])
    func onlyAPasswordThatComposesIsTriedTwice(_ typed: String, _ forms: [String]) throws {
        var tried: [[UInt8]] = []
        let password = try Password(typed)
        #expect(
            password.match {
                tried.append($0.array); return false
            } == .none)
        #expect(tried == forms.map { Array($0.utf8) })
        for (index, form) in forms.enumerated() {
            #expect(password.match { $0.equals(Array(form.utf8).rawBytes) } == (index == 0 ? .composed : .typed))
        }
    }
}
