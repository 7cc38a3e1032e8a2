import Foundation
import HTTP
import Testing
import Wire

@testable import Gate

/// Heads about caching, put together at random and damaged: times stay in their bounds, and what forbids always counts.
@Suite struct CacheFuzzTests {
    private static let rounds = ProcessInfo.processInfo.environment["TOLLGATE_FUZZ_ROUNDS"].flatMap(Int.init) ?? 20_000
    private static let now = WallTime(seconds: 1_784_111_777)
    private static let rule = {
        var rule = CacheRule()
        (rule.freshSeconds, rule.staleSeconds, rule.errorSeconds) = (60, 30, 600)
        return rule
    }()

    private static let directives = [
        "max-age=", "s-maxage=", "stale-while-revalidate=", "stale-if-error=", "public", "private", "no-store", "no-cache", "no-transform",
        "must-revalidate", "proxy-revalidate", "immutable", "0", "5", "10", "3600", "\"7\"", "99999999999999999999", "-1", "=", ",", ", ",
        ",", " ",
        "\"", "x",
    ]
    private static let dates = [
        "Wed, 15 Jul 2026 10:36:17 GMT", "Wed, 15 Jul 2026 10:36:37 GMT", "Wednesday, 15-Jul-26 10:36:17 GMT", "0", "-1", "",
        "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Wed, 15 Jul 2026 10:36:60 GMT", "Wed, 31 Feb 2026 10:36:17 GMT",
    ]
    private static let names = ["accept", "Accept-Language", "*", "x-a", ", ", ",", " ", "cookie", "X-Forwarded-For", "news", "a b"]

    private static func text(_ words: [String], _ random: inout SplitMix64) -> String {
        (0..<Int.random(in: 1...8, using: &random)).map { _ in words.randomElement(using: &random)! }.joined()
    }

    private static func line(_ random: inout SplitMix64) -> String {
        switch random.next() % 12 {
        case 0...4: "Cache-Control: " + text(directives, &random)
        case 5: "Expires: " + dates.randomElement(using: &random)!
        case 6: "Date: " + dates.randomElement(using: &random)!
        case 7: "Vary: " + text(names, &random)
        case 8: "Cache-Tag: " + text(names, &random)
        case 9: "Surrogate-Key: " + String(repeating: "k ", count: Int.random(in: 0...200, using: &random))
        case 10: "Pragma: " + ["no-cache", "x"].randomElement(using: &random)!
        default: ["Set-Cookie: a=b", "Content-Encoding: gzip", "Content-Type: x"].randomElement(using: &random)!
        }
    }

    private static func judge(_ status: Int, _ lines: [String], isShared: Bool = true, delay: Int64 = 0) -> CacheJudgement? {
        let bytes = Array("HTTP/1.1 \(status) X\r\n\(lines.map { $0 + "\r\n" }.joined())\r\n".utf8)
        var head = ResponseHead()
        guard head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits()) == .complete else { return nil }
        return CacheJudgement(head, bytes.rawBytes, rule, isShared: isShared, delay: delay, at: now)
    }

    private static func times(_ judgement: CacheJudgement?) -> [Int64]? {
        judgement.map { [$0.age, $0.freshSeconds, $0.staleSeconds, $0.errorSeconds] }
    }

    @Test(arguments: 1...2) func theTimesOfAnyAnswer(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var stored = 0
        for _ in 0..<Self.rounds {
            var lines = (0..<Int.random(in: 0...5, using: &random)).map { _ in Self.line(&random) }
            if random.next() % 3 == 0 { lines.append("Age: " + Self.text(["0", "5", "99999999999999999999", ",", "x"], &random)) }
            let status = [200, 200, 203, 204, 301, 302, 404, 410, 500].randomElement(using: &random)!
            let delay = Int64(random.next() % 3)
            let judgement = Self.judge(status, lines, delay: delay)
            let alone = Self.judge(status, lines, isShared: false, delay: delay)
            let places = [0, lines.count].map { place in lines[..<place] + ["Cache-Control: x, NO-STORE"] + lines[place...] }
            let forbidden = places.allSatisfy { Self.judge(status, Array($0)) == nil } && Self.judge(status, lines + ["Vary: a ,*"]) == nil
            let hidden = Self.judge(status, lines + ["Cache-Control: private"]) == nil
            let strict =
                Self.judge(status, lines + ["Cache-Control: must-revalidate"]).map { $0.staleSeconds + $0.errorSeconds == 0 } ?? true
            let others = Self.times(Self.judge(status, lines.shuffled(using: &random), delay: delay)) == Self.times(judgement)
            let bounds = alone.map { judged in
                (0...60).contains(judged.freshSeconds) && (0...30).contains(judged.staleSeconds) && (0...600).contains(judged.errorSeconds)
                    && (delay...1 << 32).contains(judged.age) && judged.vary.count <= 16 && judged.tags.count <= 128
                    && judged.freshSeconds + judged.staleSeconds + judged.errorSeconds > 0 && !judged.tags.contains([])
            }
            let isRight = forbidden && hidden && strict && others && bounds ?? true && (judgement == nil || judgement == alone)
            guard isRight else {
                Issue.record("seed \(seed): \(status) \(lines) \(forbidden) \(hidden) \(strict) \(others) \(String(describing: alone))")
                return
            }
            if judgement != nil { stored += 1 }
        }
        #expect(stored > 100)
    }

    @Test(arguments: 1...2) func theFormOfAnyStoredAnswer(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let tags = ["\"a\"", "W/\"a\"", "*", ",", " ", "\"b\"", "\"", "a", "W/", "\"\""]
        let ranges = [
            "bytes=0-", "BYTES=-1", "bytes=0-5", "bytes=", "1-1", "-", "0", "5", "99", "100", "999999999999999", "9999999999999999", ",",
            " ", "items=",
        ]
        var parts = 0
        for _ in 0..<Self.rounds {
            let length = [0, 1, 100].randomElement(using: &random)!
            let own = ["ETag: \"a\"\r\n", "ETag: W/\"a\"\r\n", "ETag: x\r\n", ""].randomElement(using: &random)!
            let head = CacheHead(
                status: [200, 200, 204, 404].randomElement(using: &random)!,
                lines: Array("\(own)Last-Modified: \(Self.dates.randomElement(using: &random)!)\r\nContent-Type: x\r\n".utf8),
                length: length,
                receivedAt: MonotonicTime(nanoseconds: 0), age: 0)
            let conditions = (0..<Int.random(in: 0...3, using: &random)).map { _ in
                switch random.next() % 4 {
                case 0: "If-None-Match: \(Self.text(tags, &random))\r\n"
                case 1: "If-Modified-Since: \(Self.dates.randomElement(using: &random)!)\r\n"
                case 2: "If-Range: \((tags + Self.dates).randomElement(using: &random)!)\r\n"
                default: "Range: \(random.next() % 2 == 0 ? ranges.randomElement(using: &random)! : Self.text(ranges, &random))\r\n"
                }
            }
            let form = StoredForm(of: head, Array(conditions.joined().utf8), takesParts: true)
            var out = ByteBuffer()
            form.writeHead(head, into: &out)
            var written = ResponseHead()
            let isWhole = written.parse(out.readable, requestMethod: .get, limits: HeadLimits()) == .complete
            var isRight = isWhole && (form == .whole || head.status == 200)
            if case .part(let range) = form {
                isRight =
                    isRight && !range.isEmpty && range.upperBound <= length && written.status == 206
                    && written.contentLength == UInt64(range.count)
                parts += 1
            }
            guard isRight else {
                Issue.record("seed \(seed): \(head.status) \(own) \(length) \(conditions) \(form)")
                return
            }
        }
        #expect(parts > 100)
    }
}
