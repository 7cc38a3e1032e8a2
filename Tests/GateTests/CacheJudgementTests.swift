import HTTP
import Testing
import Wire

@testable import Gate

/// Which answers are stored, and for how long: RFC 9111, RFC 5861, RFC 9110 §13 and §14 as tables.
@Suite struct CacheJudgementTests {
    private static let now = WallTime(seconds: 1_784_111_777)
    private static let date = "Date: Wed, 15 Jul 2026 10:36:17 GMT"

    /// The rule of these tables: fresh for 60 s, stale for 30 s, on errors for 600 s.
    private static let rule = {
        var rule = CacheRule()
        (rule.freshSeconds, rule.staleSeconds, rule.errorSeconds) = (60, 30, 600)
        return rule
    }()

    private func judge(_ status: Int, _ fields: [String], isShared: Bool = true, delay: Int64 = 0) throws -> CacheJudgement? {
        let text = (["HTTP/1.1 \(status) X"] + fields + ["Content-Length: 0", "", ""]).joined(separator: "\r\n")
        var head = ResponseHead()
        let bytes = Array(text.utf8)
        #expect(head.parse(bytes.rawBytes, requestMethod: .get, limits: HeadLimits()) == .complete)
        return CacheJudgement(head, bytes.rawBytes, Self.rule, isShared: isShared, delay: delay, at: Self.now)
    }

    /// Seconds fresh, stale and on errors; nil: not stored.
    private static let times: [(status: Int, fields: [String], times: [Int64]?)] = [
        (200, [], [60, 30, 600]),
        (200, ["Cache-Control: max-age=10"], [10, 30, 600]), (200, ["Cache-Control: max-age=3600"], [60, 30, 600]),
        (200, ["Cache-Control: max-age=10, s-maxage=20"], [20, 0, 0]), (200, ["Cache-Control: s-maxage=0, max-age=20"], nil),
        (200, ["Cache-Control: max-age=\"10\""], [10, 30, 600]), (200, ["Cache-Control: MAX-AGE=10"], [10, 30, 600]),
        (200, ["Cache-Control: max-age=ten"], [0, 30, 600]), (200, ["Cache-Control: max-age=-1"], [0, 30, 600]),
        (200, ["Cache-Control: max-age=30", "Cache-Control: max-age=20"], [20, 30, 600]),
        (200, ["Cache-Control: max-age=99999999999999999999"], [60, 30, 600]),
        (200, ["Cache-Control: max-age=0, must-revalidate"], nil), (200, ["Cache-Control: max-age=10, must-revalidate"], [10, 0, 0]),
        (200, ["Cache-Control: proxy-revalidate"], [60, 0, 0]),
        (200, ["Cache-Control: stale-while-revalidate=5, stale-if-error=7"], [60, 5, 7]),
        (200, ["Cache-Control: no-store"], nil), (200, ["Cache-Control: no-cache"], nil),
        (200, ["Cache-Control: no-cache=\"Set-Cookie\""], nil),
        (200, ["Cache-Control: x=\"a, no-store, b\""], nil), (200, ["Cache-Control: private"], nil),
        (200, ["Cache-Control: private=\"x\""], nil), (200, ["Pragma: no-cache"], nil),
        (200, ["Pragma: no-cache", "Cache-Control: max-age=10"], [10, 30, 600]),
        (200, ["Set-Cookie: a=b"], nil), (200, ["Vary: *"], nil), (200, ["Vary: Accept, *"], nil), (200, ["Vary: X-Forwarded-For"], nil),
        (200, [date, "Expires: Wed, 15 Jul 2026 10:36:37 GMT"], [20, 30, 600]),
        (200, ["Expires: Wed, 15 Jul 2026 10:36:37 GMT"], [20, 30, 600]), (200, ["Expires: 0"], [0, 30, 600]),
        (200, [date, "Expires: Wed, 15 Jul 2026 10:36:37 GMT", "Expires: Wed, 15 Jul 2026 10:36:37 GMT"], [0, 30, 600]),
        (200, [date, "Expires: Wed, 15 Jul 2026 10:36:37 GMT", "Cache-Control: max-age=5"], [5, 30, 600]),
        (200, ["Age: 15", "Cache-Control: max-age=20"], [5, 30, 600]), (200, ["Age: 100", "Cache-Control: max-age=20"], [0, 30, 600]),
        (200, ["Age: x", "Cache-Control: max-age=20"], [20, 30, 600]), (200, ["Age: 15"], [60, 30, 600]),
        (200, ["Date: Wed, 15 Jul 2026 10:36:02 GMT", "Cache-Control: max-age=20"], [5, 30, 600]),
        (203, [], [60, 30, 600]), (204, [], [60, 30, 600]), (301, [], [60, 30, 600]), (308, [], [60, 30, 600]),
        (302, [], nil), (404, [], nil), (404, ["Cache-Control: max-age=9"], [9, 30, 600]), (410, [date, "Expires: 0"], [0, 30, 600]),
        (206, [], nil), (304, [], nil), (403, ["Cache-Control: max-age=9"], nil), (500, ["Cache-Control: max-age=9"], nil),
        (503, [], nil),
    ]

    @Test func theUpstreamsWordsBoundTheRoutesTimes() throws {
        for (status, fields, times) in Self.times {
            let found = try judge(status, fields).map { [$0.freshSeconds, $0.staleSeconds, $0.errorSeconds] }
            #expect(found == times, "\(status) \(fields)")
        }
        #expect(try judge(200, ["Cache-Control: private"], isShared: false)?.freshSeconds == 60)
        #expect(try judge(200, ["Cache-Control: max-age=20"], delay: 4).map { [$0.age, $0.freshSeconds] } == [4, 16])
    }

    @Test func namesOfVaryAndTagsAreRead() throws {
        let judgement = try judge(
            200, ["Vary: Accept-Language , ACCEPT", "Vary: accept", "Content-Encoding: gzip", "Surrogate-Key: a b", "Cache-Tag: c,d"])
        #expect(judgement?.vary.map { String(decoding: $0, as: UTF8.self) } == ["accept-language", "accept", "accept-encoding"])
        #expect(judgement?.tags.map { String(decoding: $0, as: UTF8.self) } == ["a", "b", "c", "d"])
    }

    // MARK: the form of a stored answer

    private static let stored = CacheHead(
        status: 200, lines: Array("ETag: \"a\"\r\nLast-Modified: Wed, 15 Jul 2026 10:36:17 GMT\r\nContent-Type: x\r\n".utf8), length: 100,
        receivedAt: MonotonicTime(nanoseconds: 0), age: 0)

    private static let forms: [(conditions: [String], form: StoredForm)] = [
        ([], .whole), (["If-None-Match: \"a\""], .notModified), (["If-None-Match: W/\"a\""], .notModified),
        (["If-None-Match: *"], .notModified),
        (["If-None-Match: \"b\", \"a\""], .notModified), (["If-None-Match: \"b\""], .whole), (["If-None-Match: a"], .whole),
        (["If-None-Match: \"b\"", "If-Modified-Since: Wed, 15 Jul 2026 10:36:17 GMT"], .whole),
        (["If-Modified-Since: Wed, 15 Jul 2026 10:36:17 GMT"], .notModified),
        (["If-Modified-Since: Wed, 15 Jul 2026 10:36:16 GMT"], .whole),
        (["If-Modified-Since: yesterday"], .whole),
        (["Range: bytes=0-9"], .part(0..<10)), (["Range: bytes=90-"], .part(90..<100)), (["Range: bytes=-5"], .part(95..<100)),
        (["Range: bytes=-500"], .part(0..<100)), (["Range: bytes=50-5000"], .part(50..<100)), (["Range: bytes=100-"], .unsatisfiable),
        (["Range: bytes=-0"], .unsatisfiable), (["Range: bytes=5-4"], .whole), (["Range: bytes=0-1,5-6"], .whole),
        (["Range: items=0-1"], .whole),
        (["Range: bytes=99999999999999999999-"], .whole), (["Range: bytes=-"], .whole), (["Range: bytes="], .whole),
        (["Range: bytes=0-9", "If-Range: \"a\""], .part(0..<10)), (["Range: bytes=0-9", "If-Range: W/\"a\""], .whole),
        (["Range: bytes=0-9", "If-Range: \"b\""], .whole),
        (["Range: bytes=0-9", "If-Range: Wed, 15 Jul 2026 10:36:17 GMT"], .part(0..<10)),
        (["Range: bytes=0-9", "If-Range: Wed, 15 Jul 2026 10:36:18 GMT"], .whole),
        (["Range: bytes=0-9", "If-None-Match: \"a\""], .notModified), (["Range: bytes=0-9", "Range: bytes=0-9"], .whole),
    ]

    @Test func conditionsAndRangesAreAnsweredFromTheStoredAnswer() {
        for (conditions, form) in Self.forms {
            let lines = Array(conditions.map { $0 + "\r\n" }.joined().utf8)
            #expect(StoredForm(of: Self.stored, lines, takesParts: true) == form, "\(conditions)")
        }
        #expect(StoredForm(of: Self.stored, Array("Range: bytes=0-9\r\n".utf8), takesParts: false) == .whole)
    }
}
