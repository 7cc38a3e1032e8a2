import Testing
import Wire

@testable import Gate

private func canonical(_ path: String, _ slash: CanonicalPath.EncodedSlash = .refuse) -> (PathOutcome, String) {
    canonical(Array(path.utf8), slash)
}

private func canonical(_ path: [UInt8], _ slash: CanonicalPath.EncodedSlash = .refuse) -> (PathOutcome, String) {
    var out = ByteBuffer()
    out.append("left over" as StaticString)
    switch CanonicalPath.canonicalise(path.rawBytes, into: &out, encodedSlash: slash) {
    case .same(let traits):
        #expect(out.isEmpty || traits.isEmpty)
        return (.same(traits), path.rawBytes.text)
    case .rewritten(let traits): return (.rewritten(traits), out.readable.text)
    case .refused(let fault): return (.refused(fault), "")
    }
}

@Suite struct CanonicalPathTests {
    @Test(arguments: [
        "/", "/a", "/api/v1/passages", "/a/", "/a.b/c..d/e.", "/~user/-_.x", "/a:b@c,d+e=f!g$h&i'j(k)*l", "/a...",
        "/12345678/12345678/1234567", "/a%20b", "/%C3%A9", "/%E2%82%AC", "/100%25", "/%2525", "/%2541", "/%25%20", "/%0D%0A",
        "/...", "/.a", "/..a/b", "/.well-known/jwks.json",
    ])
    func aCanonicalPathIsUnchanged(_ path: String) {
        #expect(canonical(path) == (.same([]), path))
    }

    @Test(arguments: ["/a;v=1/b", "/m;jsessionid=1", "/.a;x/b", "/a%3Bb", "/;", "/12345678;"])
    func parametersAreReported(_ path: String) {
        #expect(canonical(path) == (.same(.parameters), path))
        #expect(canonical("/" + path) == (.rewritten(.parameters), path))
    }

    @Test func everyPlaceOfAPathIsLookedAt() {
        for count in 2...26 {
            for place in 1..<count {
                var path = [UInt8](repeating: UInt8(ascii: "a"), count: count)
                path[0] = UInt8(ascii: "/")
                path[place] = UInt8(ascii: ";")
                #expect(canonical(path).0 == .same(.parameters))
                path[place] = UInt8(ascii: "\\")
                #expect(canonical(path).0 == .refused(.backslash))
                path[place] = UInt8(ascii: " ")
                #expect(canonical(path).0 == .refused(.badCharacter))
                path[place - 1] = UInt8(ascii: "/")
                path[place] = UInt8(ascii: "/")
                #expect(canonical(path).0 == .rewritten([]))
            }
        }
    }

    @Test(arguments: [
        ("//", "/"), ("///a", "/a"), ("/a//b", "/a/b"), ("/a/b//", "/a/b/"),
        ("/.", "/"), ("/./", "/"), ("/a/./b", "/a/b"), ("/a/.", "/a/"), ("/./././a", "/a"),
        ("/a/..", "/"), ("/a/../", "/"), ("/a/b/..", "/a/"), ("/a/b/../c", "/a/c"), ("/a//../b", "/b"),
        ("/a/b/../../c", "/c"),
        ("/%61", "/a"), ("/%7Euser", "/~user"), ("/%2d%5f", "/-_"), ("/%41%5A%30", "/AZ0"),
        ("/a/%2e/b", "/a/b"), ("/a/%2E%2e/b", "/b"), ("/a/.%2e", "/"), ("/a/%2e%2E/", "/"),
        ("/%c3%a9", "/%C3%A9"), ("/%e2%82%ac", "/%E2%82%AC"), ("/%f0%9f%98%80", "/%F0%9F%98%80"),
        ("/%0d%0a", "/%0D%0A"),
        ("/%3f%23", "/%3F%23"),
    ])
    func otherPathsAreRewritten(_ path: String, _ expected: String) {
        #expect(canonical(path) == (.rewritten([]), expected))
    }

    @Test(
        arguments: [
            ("", .notAbsolute), ("a", .notAbsolute), ("*", .notAbsolute), ("%2Fa", .notAbsolute),
            ("/..", .aboveRoot), ("/../a", .aboveRoot), ("/a/../..", .aboveRoot), ("/%2e%2e", .aboveRoot), ("//../a", .aboveRoot),
            ("/./..", .aboveRoot), ("/a/../../a", .aboveRoot),
            ("/a%2Fb", .encodedSlash), ("/a%2fb", .encodedSlash), ("/..%2Fa", .encodedSlash),
            ("/a\\b", .backslash), ("/a/..\\b", .backslash), ("/a%5Cb", .encodedBackslash), ("/a%5cb", .encodedBackslash),
            ("/a%00", .encodedNul), ("/%00/a", .encodedNul),
            ("/a%252Fb", .doubledEncoding), ("/a%252fb", .doubledEncoding), ("/a%255Cb", .doubledEncoding),
            ("/a%2500", .doubledEncoding), ("/a/%252e%252e/b", .doubledEncoding), ("/a%25252fb", .doubledEncoding),
            ("/a%2525252525005c", .doubledEncoding), ("/%25%32%65", .doubledEncoding), ("/%252%65", .doubledEncoding),
            ("/%25%32f", .doubledEncoding), ("/%25%2532e", .doubledEncoding), ("/%25%35%63", .doubledEncoding),
            ("/a%25%32%65/../b", .doubledEncoding),
            ("/%", .badEncoding), ("/%2", .badEncoding), ("/%zz", .badEncoding), ("/%4", .badEncoding), ("/%u0041", .badEncoding),
            ("/%-1", .badEncoding), ("/a%%2f", .badEncoding),
            ("/%c0%af", .badEncoding), ("/%c0%ae%c0%ae/", .badEncoding), ("/%ff", .badEncoding), ("/%e9", .badEncoding),
            ("/%c3", .badEncoding), ("/%c3/%a9", .badEncoding), ("/%c3a", .badEncoding), ("/%ed%a0%80", .badEncoding),
            ("/%f4%90%80%80", .badEncoding), ("/%80", .badEncoding), ("/%e0%80%af", .badEncoding),
            ("/a b", .badCharacter), ("/a\u{7F}", .badCharacter), ("/a\u{1}", .badCharacter), ("/é", .badCharacter),
            ("/a\tb", .badCharacter), ("/a\0b", .badCharacter),
            ("/..;/a", .parameterisedDots), ("/a/..;x=1/b", .parameterisedDots), ("/a/.;", .parameterisedDots),
            ("/a/..%3B/b", .parameterisedDots), ("/a/%2e%2e;/b", .parameterisedDots), ("/a/%2e%2e%3b", .parameterisedDots),
        ] as [(String, PathFault)])
    func ambiguousPathsAreRefused(_ path: String, _ fault: PathFault) {
        #expect(canonical(path) == (.refused(fault), ""))
    }

    @Test func anEncodedSlashMayPassUndecoded() {
        #expect(canonical("/a%2fb", .pass) == (.rewritten(.encodedSlash), "/a%2Fb"))
        #expect(canonical("/a%2Fb;c", .pass) == (.same([.encodedSlash, .parameters]), "/a%2Fb;c"))
        #expect(canonical("/a//x%2Fy/../b", .pass) == (.rewritten(.encodedSlash), "/a/b"))
        for path in ["/a%2f..", "/..%2fa", "/a%2F..%2Fb", "/.%2f", "/a;x%2f..", "/a%2f..;x"] {
            #expect(canonical(path, .pass) == (.refused(.parameterisedDots), ""), "\(path)")
        }
        #expect(canonical("/a%252fb", .pass) == (.refused(.doubledEncoding), ""))
    }

    @Test func everyReasonOfARefusalHasItsOwnText() {
        #expect(Set(PathFault.allCases.map { "\($0.message)" }).count == PathFault.allCases.count)
        #expect(Set(AuthReason.allCases.map { "\($0.text)" }).count == AuthReason.allCases.count)
    }

    /// Random sequences of relevant pieces: never a trap, and canonical output is stable.
    @Test func everyInputBecomesCanonicalOrIsRefused() {
        var random = SplitMix64(seed: 2024)
        let pieces = [
            "/", "//", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5c", "\\", "%00", "%25", "%252f", ";", "%3b", "a", "bc", "%61", "%c3%a9",
            "%c3", "%", "%2", "é", " ", "~", "%7e", "longer-segment", "?", "#", "%f0%9f%98%80", "\u{1}",
        ].map { Array($0.utf8) }
        for _ in 0..<60_000 {
            var path: [UInt8] = random.next() % 16 == 0 ? [] : [UInt8(ascii: "/")]
            for _ in 0..<Int(random.next() % 12) { path += pieces[Int(random.next() % UInt64(pieces.count))] }
            if random.next() % 4 == 0, !path.isEmpty {
                path[Int(random.next() % UInt64(path.count))] = UInt8(truncatingIfNeeded: random.next())
            }
            check(path, random.next() % 2 == 0 ? .pass : .refuse)
        }
    }

    private func check(_ path: [UInt8], _ slash: CanonicalPath.EncodedSlash) {
        let (outcome, text) = canonical(path, slash)
        if case .refused = outcome { return }
        let again = canonical(text, slash)
        #expect(again.1 == text, "\(path.rawBytes.text)")
        if case .same = outcome { #expect(Array(text.utf8) == path) }
        if case .same = again.0 {} else { Issue.record("\(path.rawBytes.text) became \(text), which becomes \(again)") }
        #expect(text.hasPrefix("/"))
        for bad in ["//", "/./", "/../", "\\", "\0", "%00", "%5C", "%5c", "%2e", "%2E"] {
            #expect(!text.contains(bad), "\(path.rawBytes.text) became \(text)")
        }
        #expect(!text.hasSuffix("/.") && !text.hasSuffix("/.."))
        if slash == .refuse { #expect(!text.uppercased().contains("%2F")) }
    }
}
