import HTTP
import Testing
import Wire

@testable import Gate

/// Every path has one canonical form, or is refused: the matched path is the forwarded one, and sent directly it is decided alike.
@Suite struct PathPropertyTests {
    /// Canonical bytes of a path; nil if it is refused.
    private static func canonical(_ path: [UInt8], _ slash: CanonicalPath.EncodedSlash, _ out: inout ByteBuffer) -> [UInt8]? {
        switch CanonicalPath.canonicalise(path.rawBytes, into: &out, encodedSlash: slash) {
        case .same: path
        case .rewritten: out.readable.array
        case .refused: nil
        }
    }

    /// Decodes everything that looks like an encoding, once, and leaves the rest.
    private static func decodedOnce(_ path: [UInt8]) -> [UInt8] {
        var out: [UInt8] = []
        var offset = 0
        while offset < path.count {
            if path[offset] == UInt8(ascii: "%"), offset + 2 < path.count, let high = path[offset + 1].hexValue,
                let low = path[offset + 2].hexValue
            {
                out.append(high << 4 | low)
                offset += 3
            } else {
                out.append(path[offset])
                offset += 1
            }
        }
        return out
    }

    /// The path as an upstream sees it that decodes repeatedly.
    private static func decodedFully(_ path: [UInt8]) -> [UInt8] {
        var (last, next) = (path, decodedOnce(path))
        while next != last { (last, next) = (next, decodedOnce(next)) }
        return last
    }

    private static func count(_ path: [UInt8], _ byte: Character) -> Int { path.count { $0 == byte.asciiValue } }

    /// Why the canonical form of `path` is none; nil if it is one.
    private static func complaint(_ path: [UInt8], _ slash: CanonicalPath.EncodedSlash, _ out: inout ByteBuffer) -> String? {
        guard let first = canonical(path, slash, &out) else { return nil }
        let text = first.rawBytes.text
        guard let second = canonical(first, slash, &out) else { return "\(text), which is refused when it is sent directly" }
        guard second == first else { return "\(text), which becomes \(second.rawBytes.text)" }
        let (once, fully) = (decodedOnce(first), decodedFully(first))
        for byte: Character in ["/", "\\", "\0", "."] where count(once, byte) != count(fully, byte) {
            return "\(text), which hides another \(byte.debugDescription)"
        }
        if slash == .refuse, count(once, "/") != count(first, "/") { return "\(text), which hides a slash" }
        let isPlain = !fully.split(separator: UInt8(ascii: "/")).contains { $0 == Array(".".utf8)[...] || $0 == Array("..".utf8)[...] }
        return isPlain ? nil : "\(text), which holds a dot segment"
    }

    /// All texts of these pieces up to so many.
    private static func eachText(of pieces: [String], upTo most: Int, _ body: ([UInt8]) -> Bool) {
        let pieces = pieces.map { Array($0.utf8) }
        func extend(_ text: [UInt8], _ left: Int) -> Bool {
            guard body(text) else { return false }
            guard left > 0 else { return true }
            for piece in pieces where !extend(text + piece, left - 1) { return false }
            return true
        }
        _ = extend([UInt8(ascii: "/")], most)
    }

    @Test(arguments: [
        (["%", "2", "5", "e", "F", "3", "b", "/", ".", ";"], 4), (["%", "2", "5", "e", "%25", "%32", "%65"], 5),
        (["%25", "%32", "%35", "%66", "2", "f", "e"], 5), (["%2e", "%2F", "%3b", ";", ".", "/", "a", "%25"], 5),
        (["%5c", "%00", "%25", "%35", "%43", "5", "c", "0"], 4),
    ])
    func everyShortPathIsCanonicalOrRefused(_ pieces: [String], _ most: Int) {
        var out = ByteBuffer()
        for slash in [CanonicalPath.EncodedSlash.refuse, .pass] {
            Self.eachText(of: pieces, upTo: most) { path in
                guard let complaint = Self.complaint(path, slash, &out) else { return true }
                Issue.record("\(path.rawBytes.text) becomes \(complaint)")
                return false
            }
        }
    }

    /// A long path of pieces that matter.
    private static func path(_ random: inout SplitMix64) -> [UInt8] {
        let pieces = [
            "/", "/", ".", "..", "%2e", "%2E", "%2f", "%2F", "%25", "%32", "%65", "%66", "%35", "2", "5", "e", "f", "F", ";", "%3b",
            "%3B", ";a=b", "a", "b", "me", "%6de", "%c3%a9", "~", "%5c", "%00",
        ]
        var path = Array((random.next() % 8 == 0 ? "/cut/" : "/").utf8)
        for _ in 0..<Int(random.next() % 14) { path += Array(pieces[Int(random.next() % UInt64(pieces.count))].utf8) }
        return path
    }

    @Test func everyGeneratedPathIsCanonicalOrRefused() {
        var random = SplitMix64(seed: 12)
        var out = ByteBuffer()
        for round in 0..<40_000 {
            let path = Self.path(&random)
            guard let complaint = Self.complaint(path, round % 2 == 0 ? .pass : .refuse, &out) else { continue }
            Issue.record("\(path.rawBytes.text) becomes \(complaint)")
            return
        }
    }

    /// The forwarded path, sent in its turn, takes the same route unchanged; without its parameters too. Where the route strips
    /// a prefix, the rest is canonical.
    @Test func theForwardedPathMatchesTheSameRoute() throws {
        var slashed = rule("slashed", "/a/*", auth: .none)
        slashed.encodedSlashPasses = true
        var cut = rule("cut", "/cut/*", auth: .none)
        cut.strip = "/cut"
        var out = ByteBuffer()
        let harness = try AdmissionHarness([
            cut, slashed, rule("any", "/*", auth: .none), rule("me", "/me"), rule("below", "/me/b/*"), rule("eb", "/e/b", auth: .none),
        ])
        var random = SplitMix64(seed: 13)
        var forwarded = 0
        for _ in 0..<20_000 {
            let path = Self.path(&random).rawBytes.text
            let judged = harness.get(path)
            guard judged.status == 0 else { continue }
            forwarded += 1
            let sent = judged.path ?? path
            if judged.route == "cut" {
                let bytes = Array(sent.utf8)
                if Self.canonical(bytes, .refuse, &out) != bytes { Issue.record("\(path) is stripped to \(sent)") }
                continue
            }
            let again = harness.get(sent)
            guard again.status == 0, again.route == judged.route, again.path ?? sent == sent else {
                Issue.record("\(path) is forwarded as \(sent), which comes to \(again.status) \(again.route)")
                return
            }
            let bare = harness.get(Self.withoutParameters(sent))
            guard bare.route == judged.route else {
                Issue.record("\(path) is forwarded as \(sent) by \(judged.route), without parameters it is \(bare.route)'s")
                return
            }
        }
        #expect(forwarded > 2_000)
    }

    private static func withoutParameters(_ path: String) -> String {
        let segments = path.replacing("%3B", with: ";").split(separator: "/", omittingEmptySubsequences: false)
        return segments.map { $0.prefix { $0 != ";" } }.joined(separator: "/")
    }
}
