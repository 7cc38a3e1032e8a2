import HTTP
import Testing
import Wire

@testable import Gate

@Suite struct IdentityHeadersTests {
    private func owns(_ name: String) -> Bool { name.withRawBytes { IdentityHeaders.owns($0) } }

    private static let names =
        IdentityHeader.allCases.map { "\($0.name)" } + [
            "X-Internal-Key", "X-Refresh-Token", "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
        ]

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
        "", "X", "X-User", "X-User-Ids", "X-User-I", "User-Id", "XX-User-Id", "X-User--Id", "XUserId", "X-Forwarded-Port",
        "X-Request-Ids", "Authorization", "X-Api-Key", "X-User-Name", "x-actor-name", "X-Internal-Keys", "X-New-Access-Token",
    ])
    func otherNamesAreNot(_ name: String) {
        #expect(!owns(name))
    }

    @Test func namesThatOnlyTheGatewayAnswersUnderAreOwnedInAnswers() {
        for name in ["X-New-Access-Token", "x_new_refresh_token", "X-NEW-TOKEN-EXPIRES-AT"] {
            #expect(name.withRawBytes { IdentityHeaders.ownsInAnswer($0) })
        }
        for name in ["X-New-Feature", "X-New-Access-Tokens", "X-User-Id", "X-New-Access-Toke"] {
            #expect(!name.withRawBytes { IdentityHeaders.ownsInAnswer($0) })
        }
    }

    @Test(arguments: [("a", true), ("ünï", true), ("a b", true), (" a", false), ("a ", false), ("a\r\nb", false), ("a\u{7F}", false), ("\0", false), ("a\tb", false), ("", true)])
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
            #expect(IdentityHeaders.owns(name.rawBytes) == owned.contains(fold(name)), "\(name.rawBytes.text)")
        }
    }
}
