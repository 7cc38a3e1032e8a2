@testable import HTTP
import Testing
import Wire

private typealias F = HTTP2Bytes

/// Every kind of frame in every state of a stream to an upstream (RFC 9113 §5.1).
@Suite struct HTTP2ClientStateTests {
    /// A state of stream 1, and how it comes about.
    enum State: String, CaseIterable {
        case idle, requested, sendingContent, interim, answered, answeredHalf, complete, completeSending, malformed, cancelled,
            resetByUpstream
        case leftOut, released, insideSection

        func enter(_ line: inout HTTP2ClientLine) {
            let id = StreamID(number: 1)
            line.releases = false
            if self != .idle { line.send("POST /", ends: self != .sendingContent && self != .completeSending) }
            switch self {
            case .idle, .requested, .sendingContent: break
            case .interim: line.receive(F.answer(1, "103"))
            case .answered: line.receive(F.answer(1))
            case .answeredHalf: line.receive(F.answer(1, "200", [("content-length", "2")]) + F.data(1, "x"))
            case .complete, .completeSending: line.receive(F.answer(1, ends: true))
            case .malformed: line.receive(F.data(1, "x"))
            case .cancelled: line.machine.release(id, into: &line.output)
            case .resetByUpstream: line.receive(F.reset(1))
            case .leftOut: line.receive(F.goAway(0))
            case .released:
                line.receive(F.answer(1, ends: true))
                line.machine.release(id, into: &line.output)
            case .insideSection: line.receive(F.frame(.headers, 0, 1, F.block([(":status", "200")])))
            }
            line.events = []
            _ = line.sent()
        }
    }

    /// Frames of the stream.
    private static let streamFrames: [[UInt8]] = [
        F.answer(1), F.answer(1, ends: true), F.answer(1, "103"), F.data(1, "x"), F.data(1, "x", ends: true), F.data(1, "", ends: true),
        F.trailers(1, [("a", "b")]), F.reset(1), F.window(1, 9), F.window(1, 0),
    ]

    /// The events by state and frame: `h` head, `i` interim, `c` content, `t` trailers, `e` end, `r` reset; `b` the stream is reset for its
    /// fault, `f` the connection ends, `-` nothing.
    private static let table = """
        state           | head | head, end | 103 | data | data, end | empty, end | trailers | reset | window | no window
        idle            | f    | f         | f   | f    | f         | f          | f        | f     | f      | f
        requested       | h    | he        | i   | b    | b         | b          | b        | r     | -      | -
        sendingContent  | h    | he        | i   | b    | b         | b          | b        | r     | -      | b
        interim         | h    | he        | i   | b    | b         | b          | b        | r     | -      | -
        answered        | b    | b         | b   | c    | ce        | e          | te       | r     | -      | -
        answeredHalf    | b    | b         | b   | c    | ce        | b          | b        | r     | -      | -
        complete        | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        completeSending | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        malformed       | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        cancelled       | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        resetByUpstream | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        leftOut         | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        released        | -    | -         | -   | -    | -         | -          | -        | -     | -      | -
        insideSection   | f    | f         | f   | f    | f         | f          | f        | f     | f      | f
        """

    @Test("Every frame of a stream in every state of it")
    func streamFrames() throws {
        let rows = Self.table.split(separator: "\n").dropFirst()
        #expect(rows.count == State.allCases.count)
        for row in rows {
            let cells = row.split(separator: "|").map { $0.split(separator: " ").joined(separator: " ") }
            let state = try #require(State(rawValue: cells[0]))
            #expect(cells.count == Self.streamFrames.count + 1)
            for (index, frame) in Self.streamFrames.enumerated() {
                var line = HTTP2ClientLine()
                state.enter(&line)
                line.receive(frame)
                let events = line.takeEvents().map { String($0.first!) }.joined()
                let written = line.sent()
                #expect(events == (cells[index + 1] == "-" ? "" : cells[index + 1]), "\(row), frame \(index)")
                // The gateway answers faults alone.
                let kinds = events == "b" ? ["RST 1 protocol_error"] : events == "f" ? ["GOAWAY 0 protocol_error"] : []
                #expect(written == kinds, "\(row), frame \(index)")
            }
        }
    }

    @Test("Frames of the connection mean the same in every state of a stream")
    func connectionFrames() {
        let frames: [([UInt8], event: String?, frame: String?)] = [
            (F.settings(), "settings 100", "SETTINGS ack"), (F.frame(.settings, 1), nil, nil), (F.ping(), nil, "PING ack"),
            (F.window(0, 9), nil, nil), (F.goAway(1), "away no_error", nil), (F.frame(.priority, 0, 1, [0, 0, 0, 0, 1]), nil, nil),
            ([0, 0, 1, 0x20, 0xFF, 0, 0, 0, 1, 7], nil, nil),
            (F.frame(.pushPromise, 4, 1, F.word(2)), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.continuation, 4, 1), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.ping, 0, 0, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.ping, 0, 1, Array("12345678".utf8)), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.settings, 0, 0, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.settings, 0, 1), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.settings, 1, 0, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.goAway, 0, 0, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.goAway, 0, 1, F.word(0) + F.word(0)), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.windowUpdate, 0, 0, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.resetStream, 0, 1, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.priority, 0, 1, [1]), "fault frame_size_error", "GOAWAY 0 frame_size_error"),
            (F.frame(.data, 0x8, 0, [0]), "fault protocol_error", "GOAWAY 0 protocol_error"),
            (F.frame(.headers, 4, 0), "fault protocol_error", "GOAWAY 0 protocol_error"),
        ]
        for state in State.allCases where state != .insideSection && state != .idle {
            for (bytes, event, frame) in frames {
                var line = HTTP2ClientLine()
                state.enter(&line)
                line.receive(bytes)
                #expect(line.takeEvents().first == event, "\(state), \(bytes)")
                #expect(line.sent().first == frame, "\(state), \(bytes)")
            }
        }
        // Inside a field section no other frame may come.
        for (bytes, _, _) in frames where bytes[3] != HTTP2FrameType.continuation.rawValue {
            var line = HTTP2ClientLine()
            State.insideSection.enter(&line)
            line.receive(bytes)
            #expect(line.takeEvents() == ["fault protocol_error"])
        }
    }
}
