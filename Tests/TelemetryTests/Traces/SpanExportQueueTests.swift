import Telemetry
import Testing
import Wire

/// Batches and retries, by the rules of OTLP over HTTP.
@Suite struct SpanExportQueueTests {
    private static func time(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: 1_000_000_000).advanced(milliseconds: milliseconds)
    }

    private static func queue(_ spans: Int, _ change: (inout SpanExportQueue.Limits) -> Void = { _ in }) -> SpanExportQueue {
        var limits = SpanExportQueue.Limits()
        change(&limits)
        var queue = SpanExportQueue(limits)
        for number in 0..<spans { queue.add([UInt8(truncatingIfNeeded: number)], at: time(0)) }
        return queue
    }

    private static func dropped(_ queue: SpanExportQueue, _ reason: SpanDropReason) -> UInt64 { queue.counts.dropped[reason.rawValue] }

    @Test func aFewSpansWaitForCompanyAndABatchGoesAtOnce() {
        var queue = Self.queue(3) { $0.batch = 4 }
        #expect(queue.next(at: Self.time(4_999)) == nil && queue.pause(at: Self.time(4_000), longest: 60_000) == 1_000)
        queue.add([9], at: Self.time(4_999))
        #expect(queue.next(at: Self.time(4_999))?.count == 4)
        queue.ended(.taken(rejected: 0), at: Self.time(5_000), jitter: 0)
        #expect(queue.counts.exported == 4 && queue.count == 0)
        #expect(queue.next(at: Self.time(99_000)) == nil && queue.pause(at: Self.time(99_000), longest: 60_000) == 60_000)
    }

    @Test func oneBatchIsUnderWayAtATime() {
        var queue = Self.queue(10) { $0.batch = 4 }
        #expect(queue.next(at: Self.time(0)) == [[0], [1], [2], [3]])
        #expect(queue.next(at: Self.time(9_000)) == nil, "until the first is answered")
        #expect(queue.pause(at: Self.time(9_000), longest: 70) == 70)
        queue.ended(.taken(rejected: 3), at: Self.time(1), jitter: 0)
        #expect(queue.counts.exported == 1 && Self.dropped(queue, .refused) == 3)
        #expect(queue.next(at: Self.time(1)) == [[4], [5], [6], [7]])
    }

    @Test func theQueueIsBounded() {
        let queue = Self.queue(12) { $0.queued = 10 }
        #expect(queue.count == 10 && Self.dropped(queue, .queue) == 2 && queue.counts.queued == 10)
    }

    @Test func aRetryComesAfterABackoffThatGrows() {
        var queue = Self.queue(1) { $0.timeout = 60_000 }
        var now: UInt64 = 5_000
        for backoff: UInt64 in [1_000, 2_000, 4_000, 8_000] {
            #expect(queue.next(at: Self.time(now)) == [[0]], "the same batch")
            queue.ended(.retry(afterMilliseconds: nil), at: Self.time(now), jitter: 0)
            #expect(queue.next(at: Self.time(now + backoff - 1)) == nil)
            now += backoff
        }
        #expect(queue.next(at: Self.time(now)) != nil)
        queue.ended(.retry(afterMilliseconds: nil), at: Self.time(now), jitter: 16_000 / 2 - 1)
        #expect(queue.next(at: Self.time(now + 8_001)) != nil, "less the jitter")
        #expect(queue.counts.exported == 0 && queue.counts.dropped.allSatisfy { $0 == 0 })
    }

    @Test func whatTheCollectorAsksForCountsAlsoForTheNextBatch() {
        var queue = Self.queue(8) { $0.batch = 4 }
        _ = queue.next(at: Self.time(0))
        queue.ended(.retry(afterMilliseconds: 120_000), at: Self.time(0), jitter: 0)
        #expect(Self.dropped(queue, .unavailable) == 4, "its time is over before the collector wants it")
        #expect(queue.next(at: Self.time(119_999)) == nil)
        #expect(queue.next(at: Self.time(120_000)) == [[4], [5], [6], [7]])
    }

    @Test func aBatchThatIsRefusedIsNotSentAgain() {
        var queue = Self.queue(4) { $0.batch = 2 }
        _ = queue.next(at: Self.time(0))
        queue.ended(.refused, at: Self.time(0), jitter: 0)
        #expect(Self.dropped(queue, .refused) == 2)
        #expect(queue.next(at: Self.time(0)) == [[2], [3]])
    }

    @Test func atTheEndNothingWaitsAndNothingIsTriedTwice() {
        var queue = Self.queue(3) { $0.batch = 2 }
        queue.end()
        #expect(queue.next(at: Self.time(0))?.count == 2)
        queue.ended(.retry(afterMilliseconds: 1_000), at: Self.time(0), jitter: 0)
        #expect(queue.count == 0 && Self.dropped(queue, .ended) == 3)
    }

    @Test func anAnswerIsReadByTheRulesOfOTLP() {
        let now = WallTime(seconds: 784_111_777)
        func outcome(_ status: Int, _ retryAfter: String? = nil, _ body: String = "") -> SpanExportOutcome {
            SpanExportOutcome(status: status, retryAfter: retryAfter, body: Array(body.utf8), now: now)
        }
        #expect(outcome(200) == .taken(rejected: 0) && outcome(202, nil, "{}") == .taken(rejected: 0))
        #expect(outcome(200, nil, #"{"partialSuccess":{"rejectedSpans":"7","errorMessage":"full"}}"#) == .taken(rejected: 7))
        #expect(outcome(200, nil, #"{"partialSuccess":{"rejectedSpans":7}}"#) == .taken(rejected: 7))
        #expect(outcome(200, nil, #"{"partialSuccess":{"errorMessage":"rejectedSpans"}}"#) == .taken(rejected: 0))
        #expect(outcome(200, nil, "<html>") == .taken(rejected: 0))
        for status in [429, 502, 503, 504, 0] { #expect(outcome(status) == .retry(afterMilliseconds: nil)) }
        for status in [301, 400, 401, 404, 413, 500, 501] { #expect(outcome(status) == .refused) }
        #expect(outcome(429, "7") == .retry(afterMilliseconds: 7_000) && outcome(503, "0") == .retry(afterMilliseconds: 0))
        #expect(outcome(503, "Sun, 06 Nov 1994 08:49:47 GMT") == .retry(afterMilliseconds: 10_000))
        #expect(outcome(503, "Sun, 06 Nov 1994 08:00:00 GMT") == .retry(afterMilliseconds: 0))
        #expect(outcome(503, "99999999999999999999") == .retry(afterMilliseconds: nil), "unreadable")
        #expect(outcome(503, "86400") == .retry(afterMilliseconds: 300_000), "bounded")
    }
}
