import FilterReference
import Gate
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Nothing above the caller's tier leaves, whatever the answer says that it is: answers of every kind, made at random, go
/// through a worker to a caller without a token, and what arrives is compared with the reference.
@Suite(.ownThread, .timeLimit(.minutes(5)))
struct FilterPropertyTests {
    private static let routes: [(filters: [String], isStrict: Bool)] = [
        (["tier"], true), (["results[].tier"], true), (["[].tier"], true), (["data.items[].tier"], true),
        (["tier", "results[].tier"], true),
        (["tier"], false),
    ]

    @Test(arguments: 0..<6) func nothingAboveTheTierLeavesWhateverTheAnswersType(_ number: Int) throws {
        let (filters, isStrict) = Self.routes[number]
        let reference = ReferenceFilter(paths: filters, tiers: ["free", "premium"], tier: 0)
        let bench = try Bench { rule in
            rule.auth = .optional
            rule.filters = filters.map { try! FilterPath(parsing: $0) }
            rule.filterIsStrict = isStrict
        }
        defer { bench.end() }
        var (whole, refused, removed) = (0, 0, 0)
        for seed in 0..<500 {
            var random = SplitMix64(seed: UInt64(number * 10_000 + seed))
            let answer = RandomAnswer(&random)
            let received = try exchange(answer, bench, &random)
            let expected = answer.expected(reference, isStrict: isStrict)
            #expect(
                expected.contains(received.status, received.body), "seed \(seed): \(answer) came out as \(received.text.debugDescription)")
            if filters == ["tier"], isStrict {
                #expect(!received.text.contains(FilterDocuments.marker), "seed \(seed): \(answer)")
            }
            if received.status == answer.status, received.body != nil { whole += 1 } else { refused += 1 }
            if case .passes(let body) = expected, body.count < answer.content.count { removed += 1 }
        }
        // The generator brings some of everything.
        #expect(whole > 50 && refused > 50 && removed > 5, "\(whole) \(refused) \(removed)")
    }

    private func exchange(_ answer: RandomAnswer, _ bench: Bench, _ random: inout SplitMix64) throws -> FilterTests.Received {
        let client = try bench.client()
        try client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        let upstream = try bench.accept()
        _ = try upstream.receiveMessage()
        var rest = answer.bytes[...]
        while !rest.isEmpty {
            let count = random.next() % 3 == 0 ? rest.count : Int.random(in: 1...rest.count, using: &random)
            do {
                try upstream.send(Array(rest.prefix(count)))
            } catch {
                break  // The gateway had seen enough of it.
            }
            rest = rest.dropFirst(count)
        }
        upstream.close()
        defer { client.close() }
        return FilterTests.Received(try client.receiveAll().text)
    }
}

/// An answer of an upstream: content of some kind under a type of some kind, packed and framed in some way.
struct RandomAnswer: CustomStringConvertible {
    enum Form { case json, lines, unnamed, other }

    private enum Coding: CaseIterable { case none, identity, gzip, brokenGzip, unknown }
    private enum Framing: CaseIterable { case length, chunked, untilClose }

    let status: Int
    let form: Form
    let content: [UInt8]
    let bytes: [UInt8]
    private let fields: String
    private let coding: Coding

    private static let json = [
        "application/json", "APPLICATION/JSON", "application/json; charset=utf-8", "application/json;q=0.1", "text/json",
        "application/problem+json",
        "application/vnd.api+JSON ; version=1",
    ]
    private static let lines = ["application/x-ndjson", "Application/X-NDJSON; charset=utf-8"]
    private static let others = [
        "text/html", "text/html; charset=utf-8", "TEXT/PLAIN", "text/event-stream", "multipart/mixed; boundary=json",
        "application/octet-stream",
        "text/csv", "application/xml", "text/html; application/json", "*/*", "application", "text/javascript", "image/svg+xml",
    ]

    init(_ random: inout SplitMix64) {
        let (form, types) = Self.types(&random)
        let content = Self.content(form, &random)
        let coding = random.next() % 4 == 0 ? Coding.allCases.randomElement(using: &random)! : .none
        let framing = Framing.allCases.randomElement(using: &random)!
        status = [200, 200, 200, 201, 404, 500].randomElement(using: &random)!
        var fields = types.map { "Content-Type: \($0)\r\n" }.joined()
        var packed = content
        switch coding {
        case .none: break
        case .identity: fields += "Content-Encoding: identity\r\n"
        case .gzip:
            fields += "Content-Encoding: gzip\r\n"
            packed = content.isEmpty ? [] : Gzip.stored(content)
        case .brokenGzip: fields += "Content-Encoding: gzip\r\n"
        case .unknown: fields += "Content-Encoding: compress\r\n"
        }
        self.form = form
        self.content = content
        self.fields = fields
        self.coding = coding
        bytes = Array("HTTP/1.1 \(status) S\r\n\(fields)".utf8) + Self.framed(packed, framing, &random)
    }

    var description: String { "\(status) \(fields.debugDescription) \(String(decoding: content, as: UTF8.self).debugDescription)" }

    private static func types(_ random: inout SplitMix64) -> (Form, [String]) {
        func one(_ list: [String]) -> String { list.randomElement(using: &random)! }
        switch random.next() % 12 {
        case 0: return (.unnamed, [])
        case 1: return (.unnamed, [""])
        case 2: return (.unnamed, ["", one(others)])
        case 3: return (.json, [one(others), one(json)].shuffled(using: &random))
        case 4: return (.json, [one(lines), one(json)].shuffled(using: &random))
        case 5: return (.lines, [one(lines)])
        case 6, 7: return (.other, [one(others)])
        case 8: return (.other, [one(others), one(others)])
        default: return (.json, [one(json)])
        }
    }

    private static func content(_ form: Form, _ random: inout SplitMix64) -> [UInt8] {
        var documents = FilterDocuments(random: SplitMix64(seed: random.next()), allowed: ["free"])
        func document() -> [UInt8] { documents.next() }
        func around(_ before: String, _ after: String) -> [UInt8] { Array(before.utf8) + document() + Array(after.utf8) }
        let ending = UInt8(ascii: "\n")
        if form == .lines, random.next() % 5 > 0 {
            return Array(
                (0..<Int.random(in: 1...4, using: &random)).map { _ in document().filter { $0 != ending } }.joined(separator: [ending]))
        }
        switch random.next() % 24 {
        case 0: return []
        case 1: return Array(" \r\n\t ".utf8)
        case 2: return around("<pre>", "</pre>")
        case 3: return around("callback(", ")")
        case 4: return around(")]}',\n", "")
        case 5: return [0xEF, 0xBB, 0xBF] + document()
        case 6: return [0xFF, 0xFE] + document().flatMap { [$0, 0] }
        case 7: return around("data: ", "\n\n")
        case 8: return around("--json\r\nContent-Type: application/json\r\n\r\n", "\r\n--json--")
        case 9: return document() + document()
        case 10: return Array(document().dropLast(Int.random(in: 1...3, using: &random)))
        case 11:
            var damaged = document()
            damaged[Int.random(in: 0..<damaged.count, using: &random)] = [0x20, 0x5B, 0x7D, 0x2C, 0x22, 0x5C, 0x7B, 0xFF].randomElement(
                using: &random)!
            return damaged
        default: return document()
        }
    }

    private static func framed(_ content: [UInt8], _ framing: Framing, _ random: inout SplitMix64) -> [UInt8] {
        switch framing {
        case .length: return Array("Content-Length: \(content.count)\r\n\r\n".utf8) + content
        case .untilClose: return Array("\r\n".utf8) + content
        case .chunked:
            var bytes = Array("Transfer-Encoding: chunked\r\n\r\n".utf8)
            var rest = content[...]
            while !rest.isEmpty {
                let chunk = rest.prefix(Int.random(in: 1...rest.count, using: &random))
                bytes += Array("\(String(chunk.count, radix: 16))\r\n".utf8) + chunk + [13, 10]
                rest = rest.dropFirst(chunk.count)
            }
            return bytes + Array("0\r\n\r\n".utf8)
        }
    }

    // MARK: what should come out

    enum Expected: CustomStringConvertible {
        case passes([UInt8])
        /// The same, but for white space.
        case passesLines([UInt8])
        case refused(Int)
        /// Content that breaks on its way: refused by what was read before, for an error of the upstream with its status, or an answer that
        /// does not look whole.
        case cutOrRefused(Int)
        /// Nothing is promised of it.
        case anything

        func contains(_ status: Int, _ body: String?) -> Bool {
            switch self {
            case .passes(let bytes): body.map { Array($0.utf8) == bytes } ?? false
            case .passesLines(let bytes): body.map { Self.dense(Array($0.utf8)) == Self.dense(bytes) } ?? false
            case .refused(let expected): status == expected
            case .cutOrRefused(let error):
                status == 502 || status == 403 || body == nil || status == error && body?.contains("UPSTREAM_ERROR") == true
            case .anything: true
            }
        }

        private static func dense(_ bytes: [UInt8]) -> [UInt8] { bytes.filter { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } }

        var description: String {
            switch self {
            case .passes(let bytes), .passesLines(let bytes): "passes \(String(decoding: bytes, as: UTF8.self).debugDescription)"
            case .refused(let status): "refused with \(status)"
            case .cutOrRefused: "cut or refused"
            case .anything: "anything"
            }
        }
    }

    /// The status of a refusal for content that is not JSON: an error keeps its own.
    private var notJSON: Int { status >= 400 ? status : 502 }

    func expected(_ reference: ReferenceFilter, isStrict: Bool) -> Expected {
        if content.isEmpty { return .passes([]) }
        let isBlank = content.allSatisfy { [0x20, 0x09, 0x0A, 0x0D].contains($0) }
        switch form {
        case .other: return isStrict ? .refused(notJSON) : .anything
        case .json, .lines, .unnamed: break
        }
        switch coding {
        case .unknown: return .refused(502)
        case .brokenGzip: return .cutOrRefused(notJSON)
        case .none, .identity, .gzip: break
        }
        switch form {
        case .other: return .refused(notJSON)
        case .lines: return lines(reference)
        // Of white space without a type nothing need go on.
        case .unnamed where isBlank: return .passes([])
        case .unnamed:
            let first = content.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            if let first, ![0x5B, 0x7B, 0xEF, 0xFE, 0xFF].contains(first) {
                return isStrict ? .refused(notJSON) : .passes(content)
            }
            return json(reference, content)
        case .json: return isBlank ? .passes(content) : json(reference, content)
        }
    }

    private func json(_ reference: ReferenceFilter, _ text: [UInt8]) -> Expected {
        switch StrictJSON.isValid(text) ? reference.filter(text, isError: status >= 400) : nil {
        case .passes(let out, _)?: .passes(out)
        case .aboveTier?: .refused(403)
        case .noList?: .refused(502)
        case nil: .cutOrRefused(notJSON)
        }
    }

    /// A line that would be refused as an answer leaves with its end.
    private func lines(_ reference: ReferenceFilter) -> Expected {
        var out: [[UInt8]] = []
        for line in content.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            if line.allSatisfy({ [0x20, 0x09, 0x0D].contains($0) }) { continue }
            guard StrictJSON.isValid(Array(line)), let outcome = reference.filter(Array(line)) else { return .cutOrRefused(notJSON) }
            if case .passes(let kept, _) = outcome { out.append(kept) }
        }
        return .passesLines(Array(out.joined()))
    }
}

/// Whether bytes are one JSON text, by the reader of whole texts.
private enum StrictJSON {
    static func isValid(_ bytes: [UInt8]) -> Bool {
        do throws(JSONFault) {
            var reader = JSONReader(bytes.rawBytes, takesHalves: true)
            while try reader.next() != .end {}
            return true
        } catch {
            return false
        }
    }
}

/// Content that is packed without being pressed (RFC 1951 §3.2.4, RFC 1952).
enum Gzip {
    static func stored(_ content: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF]
        var rest = content[...]
        repeat {
            let block = rest.prefix(0xFFFF)
            rest = rest.dropFirst(block.count)
            let count = UInt16(block.count)
            bytes.append(rest.isEmpty ? 1 : 0)
            for word in [count, ~count] { bytes += [UInt8(truncatingIfNeeded: word), UInt8(word >> 8)] }
            bytes += block
        } while !rest.isEmpty
        for word in [checksum(content), UInt32(truncatingIfNeeded: content.count)] {
            bytes += [0, 8, 16, 24].map { UInt8(truncatingIfNeeded: word >> $0) }
        }
        return bytes
    }

    private static func checksum(_ content: [UInt8]) -> UInt32 {
        var sum: UInt32 = ~0
        for byte in content {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 1 ? (sum >> 1) ^ 0xEDB8_8320 : sum >> 1 }
        }
        return ~sum
    }
}
