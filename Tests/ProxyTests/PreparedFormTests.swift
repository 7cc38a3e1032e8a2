import Gate
import HTTP
import TestThreads
import Testing
import Wire

@testable import Proxy

/// A stored answer that was asked for again is sent as the stages have made it before, and no caller can tell.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct PreparedFormTests {
    private static let list =
        "[" + (0..<200).map { #"{"id":\#($0),"tier":"\#($0 % 2 == 0 ? "free" : "premium")"}"# }.joined(separator: ",") + "]"
    private static let fields = ["Content-Type: application/json", "ETag: \"l\"", "X-A: 1"]

    private func bench() throws -> CacheBench {
        try CacheBench {
            $0.filters = [try! FilterPath(parsing: "tier")]
            $0.compression.mode = .on
            $0.compression.codings = CompressionCodings(["zstd", "br", "gzip"])!
        }
    }

    /// The head and the decoded content of the client's answer.
    private func hit(_ request: String, _ bench: CacheBench) throws -> (head: String, content: String) {
        let client = try bench.client(request)
        defer { client.close() }
        var bytes: [UInt8] = []
        var content: [UInt8]?
        var head = ""
        while content == nil {
            try bench.stepped.turn(untilReadable: client)
            bytes += try #require(try client.receive())
            guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
            head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
            let body = Array(bytes[end.upperBound...])
            if let length = head.value(of: "Content-Length").flatMap({ Int($0) }) {
                content = body.count == length ? body : nil
            } else if body.suffix(5).elementsEqual("0\r\n\r\n".utf8) {
                content = Self.unchunked(body)
            }
        }
        let coding = ContentCoding.allCases.first { "\($0)" == head.value(of: "Content-Encoding") } ?? .identity
        let decoded = try #require(CompressionTests.decoded(content ?? [], coding))
        return (head, String(decoding: decoded, as: UTF8.self))
    }

    private static func unchunked(_ body: [UInt8]) -> [UInt8]? {
        var (rest, out) = (body[...], [UInt8]())
        while let end = rest.firstIndex(of: 0x0d) {
            guard let count = Int(String(decoding: rest[..<end], as: UTF8.self), radix: 16), rest.count >= end - rest.startIndex + 4 + count
            else { return nil }
            if count == 0 { return out }
            out += rest[(end + 2)..<(end + 2 + count)]
            rest = rest[(end + 4 + count)...]
        }
        return nil
    }

    /// The lines of a head but for those of its framing and age.
    private func lines(_ head: String) -> [String] {
        let names = ["Content-Length", "Transfer-Encoding", "Age", "X-Request-Id", "Date"]
        return head.split(separator: "\r\n").map(String.init).filter { line in !names.contains { line.hasPrefix($0 + ":") } }.sorted()
    }

    @Test func eachTierAndCodingHasItsOwn() throws {
        let bench = try bench()
        try bench.fetch(CacheBench.request(user: "anna", tier: "premium"), CacheBench.answer(Self.list, Self.fields))
        let codings = ["zstd", "br", "gzip", "identity"]
        var first: [String: (head: String, content: String)] = [:]
        for round in 0..<4 {
            for (user, tier) in [("anna", "premium"), ("ida", "free")] {
                for coding in codings {
                    let request = CacheBench.request("/", ["Accept-Encoding: \(coding)"], user: user, tier: tier)
                    let found = try hit(request, bench)
                    #expect(found.content.contains("premium") == (tier == "premium") && found.content.contains("free"))
                    #expect(found.head.value(of: "Content-Encoding") == (coding == "identity" ? nil : coding))
                    let known = first[tier + coding] ?? found
                    first[tier + coding] = known
                    #expect(found.content == known.content && lines(found.head) == lines(known.head), "\(tier) \(coding) \(round)")
                    // The length of what was made before is known.
                    if round > 1 { #expect(found.head.value(of: "Content-Length") != nil, "\(tier) \(coding)") }
                }
            }
        }
        #expect(bench.isSilent() && bench.stepped.worker.cache.forms.bytes > 0)
        // Conditions and the answer to HEAD are those of the entry.
        let tag = try #require(first["freegzip"]?.head.value(of: "ETag"))
        let known = ["Accept-Encoding: gzip", "If-None-Match: \(tag)"]
        #expect(try bench.hit(CacheBench.request("/", known, user: "ida", tier: "free")).status == 304)
        #expect(try hit(CacheBench.request("/", known, user: "anna", tier: "premium"), bench).content.contains("premium"))
        let head = CacheBench.request("/", ["Accept-Encoding: gzip"], method: "HEAD", user: "ida", tier: "free")
        #expect(try bench.hit(head, isHead: true).value(of: "ETag") == tag)
    }

    @Test func nothingOutlivesItsAnswer() throws {
        let bench = try bench()
        let request = CacheBench.request("/", ["Accept-Encoding: gzip"])
        func warm(_ list: String) throws {
            try bench.fetch(request, CacheBench.answer(list, Self.fields))
            for _ in 0..<3 { #expect(try hit(request, bench).content.contains("old") == list.contains("old")) }
            #expect(bench.stepped.worker.cache.forms.bytes > 0)
        }
        let old = Self.list.replacing(#""id":0,"#, with: #""id":"old","#)
        try warm(old)
        bench.stepped.post(.cache(.select(CacheSelector(path: "/"), removes: true) { _ in }))
        bench.stepped.turn()
        #expect(bench.stepped.worker.cache.forms.bytes == 0)
        try warm(Self.list)
        // Made anew once it is too old.
        bench.stepped.advance(milliseconds: 61_000)
        try warm(old)
        bench.stepped.advance(milliseconds: 61_000)
        try warm(Self.list)
    }

    @Test func theirMemoryIsBounded() {
        var forms = PreparedForms(capacity: 10_000)
        let head = CacheHead(status: 200, lines: [], length: 0, receivedAt: MonotonicTime(nanoseconds: 0), age: 0)
        func answer(_ number: UInt64) -> PreparedForms.Answer { .init(hash: LimitKey(high: number, low: 0), serial: number) }
        func form(_ bytes: Int, _ coding: ContentCoding = .gzip) -> PreparedForm {
            PreparedForm(.init(coding: coding), head, [UInt8](repeating: 0, count: bytes), filtered: nil, compressed: nil)
        }
        forms.keep(form(2_000), of: answer(0))
        #expect(forms.bytes == 0, "one takes an eighth at most")
        for number in 1...1_000 as ClosedRange<UInt64> {
            for coding in [ContentCoding.gzip, .br, .gzip] { forms.keep(form(500, coding), of: answer(number)) }
            #expect(forms.bytes <= 10_000)
            // One that is asked for again and again stays.
            #expect(number == 1 || forms.use(answer(1), for: .init(coding: .br)) != nil)
        }
        #expect(forms.use(answer(1_000), for: .init(coding: .gzip)) != nil && forms.use(answer(2), for: .init(coding: .gzip)) == nil)
        #expect(forms.use(answer(1_000), for: .init(tier: .lowest, coding: .gzip)) == nil)
        for number in 1...1_000 as ClosedRange<UInt64> { forms.remove(answer(number)) }
        #expect(forms.bytes == 0)
    }
}
