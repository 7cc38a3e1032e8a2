import Credentials
import HTTP
import Testing
import Wire

@testable import Gate

@Suite struct IdentityHeadersTests {
    private func owns(_ name: String) -> Bool { name.withRawBytes { IdentityHeaders.owns($0) } }

    private static let names =
        IdentityHeader.allCases.map { "\($0.name)" } + [
            "X-Internal-Key", "X-Refresh-Token", "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
            "X-Real-IP", "X-User-Attribute-", "X-User-Attribute-A", "X-User-Attribute-Avatar-Url",
        ] + believed

    /// Fields that upstreams trust.
    private static let believed = [
        "X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "Proxy",
        "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded-User", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Ssl",
        "X-Forwarded-Server", "True-Client-IP", "X-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP", "Remote-User",
        "X-Remote-User", "X-Authenticated-User", "X-Original-Host", "X-Forwarded-Client-Cert", "X-Auth-Request-Email",
    ]

    @Test(arguments: [
        "transfer---encoding", "transfer___encoding", "Transfer_-Encoding", "transfer.encoding", "TRANSFER--ENCODING", "content--length",
        "Content.Length", "content-._length", "keep_alive", "Proxy__Connection", "proxy_authorization", "proxy-_-authenticate",
    ])
    func lookAlikesOfFramingFieldsAreOwned(_ name: String) {
        #expect(owns(name))
    }

    /// No name of a row here may be one that HTTP knows: those are recognised earlier.
    @Test func everyRowIsReached() {
        for name in ProxyFields.spellings + ["X-Real-IP", "X-User-Email-Verified"] {
            #expect(name.withRawBytes { FieldName.recognise($0) } == .other)
            #expect(owns(name))
        }
        #expect(Set(ProxyFields.spellings.map { $0.lowercased() }).count == ProxyFields.spellings.count)
        for name in Self.believed + ["X-Forwarded-Path"] where name != "X-Real-IP" {
            #expect(ProxyFields.spellings.contains(name), "\(name)")
        }
    }

    @Test func eachOfThemCanBeKeptAloneAndOnlyAsItIsUsuallySpelled() throws {
        for kept in ProxyFields.spellings {
            let fields = try KeptFields(named: kept.lowercased())
            #expect(fields.text == kept)
            func isRemoved(_ name: String) -> Bool { name.withRawBytes { ReservedNames.shared.holds($0, except: fields) } }
            #expect(!isRemoved(kept) && !isRemoved(kept.uppercased()))
            if kept.contains("-") { #expect(isRemoved(kept.replacing("-", with: "_"))) }
            for other in ProxyFields.spellings where other != kept { #expect(isRemoved(other), "\(other) beside \(kept)") }
        }
    }

    @Test(arguments: [
        ("X-User-Id", KeptFields.Fault.written), ("x-user-attribute-role", .written), ("X-Real-IP", .written), ("x_request_id", .written),
        ("Forwarded", .written),
        ("X-Refresh-Token", .credential), ("Authorization", .credential), ("Content-Length", .framing), ("te", .framing),
        ("transfer--encoding", .framing), ("X-Api-Key", .notRemoved), ("", .notRemoved), ("X_Original_URL", .notRemoved),
    ])
    func noOtherFieldCanBeKept(_ name: String, _ fault: KeptFields.Fault) {
        #expect(throws: fault) { try KeptFields(named: name) }
    }

    @Test(arguments: names)
    func everySpellingOfAnOwnedNameIsOwned(_ name: String) {
        let dashes = name.indices.filter { name[$0] == "-" }
        for bits in 0..<(1 << dashes.count) {
            var spelled = name
            for (bit, place) in dashes.enumerated() where bits & 1 << bit != 0 {
                spelled.replaceSubrange(place...place, with: "_")
            }
            for spelling in [spelled, spelled.lowercased(), spelled.uppercased(), spelled.replacing("-", with: ".")] {
                #expect(owns(spelling), "\(spelling)")
            }
        }
    }

    @Test(arguments: [
        "", "X", "X-User", "X-User-Ids", "X-User-I", "User-Id", "XX-User-Id", "X-User--Id", "XUserId", "X-Forwarded-Ports",
        "transferencoding", "content-lengths", "-content-length",
        "Content-Disposition", "Keep-It-Alive", "Priority", "Sec-Fetch-Site", "X-Requested-With", "DNT", "c", "-", "_",
        "X-Request-Ids", "Authorization", "X-Api-Key", "X-User-Names", "x-actor-name", "X-Internal-Keys", "X-New-Access-Token",
        "X-User-Attribute", "X-User-Attributes-A", "X-User--Attribute-A", "X-Requested-Attribute-Role",
    ])
    func otherNamesAreNot(_ name: String) {
        #expect(!owns(name))
    }

    @Test func namesThatOnlyTheGatewayAnswersUnderAreOwnedInAnswers() {
        for name in ["X-New-Access-Token", "x_new_refresh_token", "X-NEW-TOKEN-EXPIRES-AT", "x_tollgate_merge.done"] {
            #expect(name.withRawBytes { IdentityHeaders.ownsInAnswer($0) })
        }
        for name in ["X-New-Feature", "X-New-Access-Tokens", "X-User-Id", "X-New-Access-Toke"] {
            #expect(!name.withRawBytes { IdentityHeaders.ownsInAnswer($0) })
        }
    }

    @Test(arguments: [
        ("a", true), ("ünï", true), ("a b", true), (" a", false), ("a ", false), ("a\r\nb", false), ("a\u{7F}", false), ("\0", false),
        ("a\tb", false), ("", true),
    ])
    func aValueThatAHeaderWouldChangeIsUnsafe(_ value: String, _ isSafe: Bool) {
        #expect(value.withRawBytes { IdentityHeaders.isSafe($0) } == isSafe)
    }

    /// Fold and compare the slow way, over random names near the owned ones.
    @Test func theFastRejectMissesNothing() {
        var random = SplitMix64(seed: 11)
        func fold(_ name: [UInt8]) -> [UInt8] {
            name.map { $0.isASCIILetter || $0.isASCIIDigit ? $0.lowercasedASCII : UInt8(ascii: "-") }
        }
        let owned = Set(Self.names.map { fold(Array($0.utf8)) })
        for _ in 0..<20_000 {
            var name = Array(Self.names[Int(random.next() % UInt64(Self.names.count))].utf8)
            for _ in 0..<random.next() % 3 {
                let place = Int(random.next() % UInt64(name.count))
                switch random.next() % 4 {
                case 0: name[place] ^= 0x20
                case 1: name[place] = UInt8(truncatingIfNeeded: random.next())
                case 2: name.insert(UInt8(ascii: "-"), at: place)
                default: if name.count > 1 { name.remove(at: place) }
                }
            }
            let folded = fold(name)
            let isAttribute = folded.starts(with: Array("x-user-attribute-".utf8))
            let isOwned = isAttribute || owned.contains(folded) || ProxyFields.spellings.contains { fold(Array($0.utf8)) == folded }
            #expect(IdentityHeaders.owns(name.rawBytes) == isOwned, "\(name.rawBytes.text)")
        }
    }

    /// Which fields are sent depends on the route and the account alone, not on the order in which they are written.
    @Test func noOrderOfTheFieldsChangesWhichAreSent() throws {
        var random = SplitMix64(seed: 32)
        let all = IdentityHeader.allCases
        let orders =
            all.map { [$0] } + all.indices.map { Array(all[$0...] + all[..<$0]) } + (0..<100).map { _ in all.shuffled(using: &random) }
        for isProven in [true, false] {
            let token = try Self.verified(
                AdmissionHarness.token {
                    ($0.email, $0.isEmailVerified, $0.sessionID, $0.actorType, $0.actorID) = ("a@b.test", isProven, "s-1", "staff", "a-1")
                    _ = $0.add("name", .string("Ada"))
                })
            for order in orders {
                var held = FieldEdits()
                let fields = try #require(IdentityFields(token, issuer: "i", order: order, into: &held))
                for bits in 0..<8 {
                    let view = IdentityView(
                        forwardsName: bits & 1 != 0, forwardsEmail: bits & 2 != 0, isEmailProven: isProven, hidesEmail: bits & 4 != 0)
                    var edits = FieldEdits()
                    fields.append(view, from: held, to: &edits)
                    let expected = Self.expected(order, view).joined()
                    #expect(edits.http1.text == expected, "\(order) \(view)")
                }
            }
        }
    }

    private static func verified(_ text: String) throws -> VerifiedToken {
        var verifier = TokenVerifier()
        return try text.withRawBytes { bytes throws in
            try verifier.verify(bytes, trust: AdmissionHarness.trust([AdmissionHarness.trusted()]), now: AdmissionHarness.now.wall).get()
        }
    }

    /// The lines that are sent of `order`, in the order of the table.
    private static func expected(_ order: [IdentityHeader], _ view: IdentityView) -> [String] {
        let email = !view.hidesEmail && (view.forwardsEmail || view.isEmailProven)
        let lines: [(IdentityHeader, String, Bool)] = [
            (.userName, "X-User-Name: Ada", view.forwardsName),
            (.userEmailVerified, "X-User-Email-Verified: \(view.isEmailProven)", view.forwardsEmail && !view.hidesEmail),
            (.userEmail, "X-User-Email: a@b.test", email), (.userID, "X-User-Id: user-1", true), (.sessionID, "X-Session-Id: s-1", true),
            (.tokenIssuer, "X-Token-Issuer: i", true), (.actorType, "X-Actor-Type: staff", true), (.actorID, "X-Actor-Id: a-1", true),
        ]
        return lines.filter { $0.2 && order.contains($0.0) }.sorted { $0.0.rawValue < $1.0.rawValue }.map { $0.1 + "\r\n" }
    }
}
