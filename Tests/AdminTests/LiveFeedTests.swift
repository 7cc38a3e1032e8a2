import Credentials
import Gate
import HTTP
import Synchronization
import Testing
import Threads
import Wire

@testable import Admin

/// The events of the console's live view.
@Suite struct LiveFeedTests {
    private static func refusals(_ count: Int, skipped: Int = 0, path: String = "/x") throws -> NewRefusals {
        let policy = try Policy(rules: [], trust: Trust(issuers: []))
        let stories = (0..<count).reversed().map { number in
            var note = DecisionRecord()
            note.recordUnparsed(HTTPFault(.missingHost), from: IPAddress(high: 0, low: 1), policy)
            return ExplainedRefusal(
                requestID: "r\(number)", at: WallTime(microseconds: Int64(number)), method: "GET", host: "h", path: path,
                explanation: Explanation(note, policy: policy))
        }
        return NewRefusals(stories: stories, skipped: skipped, count: count)
    }

    private func text(_ bytes: [UInt8]?) -> String { bytes.map { $0.rawBytes.text } ?? "nothing" }

    @Test func aBeatIsTheNumbersAndTheNewestRefusalsOldestFirst() throws {
        let beat = LiveBeat(now: Array(#"{"a":1}"#.utf8), [try Self.refusals(2), try Self.refusals(0, skipped: 0)])
        var listener = LiveListener()
        let sent = text(listener.offer(beat))
        #expect(sent.hasPrefix("event: now\ndata: {\"a\":1}\n\nevent: refusal\ndata: {\"request_id\":\"r0\""))
        #expect(sent.hasSuffix("}\n\n") && sent.ranges(of: "event: ").count == 3 && sent.ranges(of: "\n\n").count == 3)
    }

    /// The texts of refusals come from strangers.
    @Test func noTextOfARequestEndsItsEvent() throws {
        var listener = LiveListener()
        let beat = LiveBeat(now: Array("{}".utf8), [try Self.refusals(1, path: "/\n\nevent: now\ndata: {}\r\n\r\n\u{2028}")])
        let sent = text(listener.offer(beat))
        #expect(sent.split(separator: "\n").filter { $0.hasPrefix("event: ") } == ["event: now", "event: refusal"])
        #expect(!sent.contains("\r"))
    }

    @Test func atMostFiftyRefusalsAreToldAndTheRestCounted() throws {
        let beat = LiveBeat(now: Array("{}".utf8), [try Self.refusals(50, skipped: 7), try Self.refusals(30)])
        #expect(beat.refusals == 50 && beat.skipped == 37)
        var listener = LiveListener()
        #expect(text(listener.offer(beat)).hasPrefix("event: skipped\ndata: {\"count\":37}\n\nevent: now\n"))
    }

    @Test func aSlowListenerMissesBeatsAndIsToldHowMany() throws {
        let beat = LiveBeat(now: Array("{}".utf8), [try Self.refusals(3, skipped: 1)])
        let quiet = LiveBeat(now: Array("{}".utf8), [])
        var listener = LiveListener()
        #expect(listener.offer(quiet) != nil)
        #expect(listener.offer(beat) == nil && listener.offer(beat) == nil && listener.offer(quiet) == nil)
        listener.taken()
        #expect(text(listener.offer(quiet)) == "event: skipped\ndata: {\"count\":8}\n\nevent: now\ndata: {}\n\n")
        listener.taken()
        #expect(text(listener.offer(quiet)) == "event: now\ndata: {}\n\n", "told once")
    }

    // MARK: the feed

    private final class Reader: Sendable {
        let parts = Mutex<[String]>([])
        let hasEnded = Mutex(false)

        func take(_ part: LocalStream.Part) {
            switch part {
            case .content(let bytes): parts.withLock { $0.append(bytes.rawBytes.text) }
            case .end: hasEnded.withLock { $0 = true }
            }
        }

        func wait(until condition: (Reader) -> Bool) async -> Bool {
            for _ in 0..<60_000 {
                if condition(self) { return true }
                await pause(milliseconds: 1)
            }
            return false
        }
    }

    @Test func eightMayListenAndAPlaceIsFreedByWhoGoes() async throws {
        let desk = try AdminBench()
        var streams: [LocalStream] = []
        for _ in 0..<LiveFeed.maxListeners {
            let answer = await desk.api.answer(desk.request("GET live"))
            #expect(answer.status == 200 && answer.fields.contains { $0.name == "Content-Type" && $0.value == "text/event-stream" })
            streams.append(try #require(answer.stream))
        }
        let ninth = await desk.api.answer(desk.request("GET live"))
        #expect(ninth.status == 503 && ninth.stream == nil && ninth.fields.contains { $0.name == "Retry-After" })
        #expect(await desk.api.answer(desk.request("HEAD live")).status == 200, "it listens to nothing")
        streams[3].ended()
        #expect(await desk.api.answer(desk.request("GET live")).stream != nil)
        #expect(await desk.api.answer(desk.request("GET live", "", [])).status == 401)
        for stream in streams { stream.ended() }
    }

    @Test func aListenerIsSentTheNumbersUntilItsProofIsGone() async throws {
        let desk = try AdminBench { $0.instance = "here" }
        let cookie = try await desk.signIn()
        let stream = try #require(await desk.api.answer(desk.request("GET live", "", [cookie])).stream)
        let reader = Reader()
        stream.begin { reader.take($0) }
        #expect(await reader.wait { $0.parts.withLock { !$0.isEmpty } })
        let first = reader.parts.withLock { $0[0] }
        #expect(
            first.hasPrefix("event: now\ndata: {\"at\":\"2027-01-15T08:00:00.000Z\",\"uptime_seconds\":1000,")
                && first.contains(#""instance":"here""#))
        stream.taken()
        desk.now.token.withLock { $0 = Array("another".utf8) }
        #expect(await reader.wait { $0.hasEnded.withLock { $0 } })
        stream.ended()
    }
}
