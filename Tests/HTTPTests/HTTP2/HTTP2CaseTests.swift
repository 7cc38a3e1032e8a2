import HTTP2Cases
import Testing
import Wire

@testable import HTTP

/// Every case of `Tests/HTTP2Cases/Documents` against the machine, in pieces of several sizes.
@Suite struct HTTP2CaseTests {
    @Test("h2spec has 146 cases, one more with --strict, and two that came later")
    func count() throws {
        let names = try HTTP2Case.all().map(\.name)
        #expect(names.count == 146 + 1 + 2)
        #expect(Set(names).count == names.count)
    }

    @Test("Every case comes out as it says", arguments: try HTTP2Case.all().map(\.name))
    func outcome(_ name: String) throws {
        let each = try #require(try HTTP2Case.all().first { $0.name == name })
        for pieces in [Int.max, 1, 7, 16_384] {
            var run = CaseRun(greeted: each.isGreeted)
            run.play(each, in: pieces)
            let (frames, isClosed) = (run.frames, run.isClosed)
            #expect(each.fault(in: frames) == nil, "in pieces of \(pieces)")
            #expect(isClosed || each.outcome != "closed", "\(each.name), \(each.title)")
        }
    }
}

/// A connection whose requests are answered as a server would.
private struct CaseRun: ~Copyable {
    private static let content = Array("answer".utf8)

    private var line: HTTP2Line
    private(set) var frames: [String] = []
    /// The rest of each answer under way, by stream.
    private var answers: [UInt32: ArraySlice<UInt8>] = [:]
    private var hasFault = false

    init(greeted: Bool) { line = HTTP2Line(greeted: greeted) }

    /// Whether the driver ends the connection now.
    var isClosed: Bool { hasFault || line.machine.acceptsNoMore && line.machine.streamCount == 0 }

    mutating func play(_ each: HTTP2Case, in pieces: Int) {
        for step in each.steps {
            switch step {
            case .send(let bytes): line.receive(bytes, in: pieces)
            case .wait(let frame):
                answer()
                let hasCome = frames.contains { FrameNotation.begins($0, with: frame) }
                #expect(hasCome, "\(each.name), \(each.title): \(frame) does not come")
            }
        }
        answer()
    }

    /// Answers what has been asked, as far as the windows allow.
    private mutating func answer() {
        for event in line.takeEvents() {
            let words = event.split(separator: " ")
            if words[0] == "fault" { hasFault = true }
            guard words.count > 1, let stream = UInt32(words[1]) else { continue }
            if words[0] == "reset" { answers[stream] = nil }
            if words[0] == "end" || words[0] == "head" && words.last != "+" { begin(stream, isHead: words.count > 2 && words[2] == "HEAD") }
        }
        for (stream, rest) in answers where !rest.isEmpty {
            let sent = line.machine.sendContent(Array(rest).rawBytes, isLast: false, on: StreamID(number: stream), into: &line.output)
            answers[stream] = rest.dropFirst(sent)
            if sent == rest.count { finish(stream) }
        }
        frames += FrameNotation.describe(line.output.readable.array).frames
        line.output.removeAll()
        line.machine.outputLeaves()
    }

    private mutating func begin(_ stream: UInt32, isHead: Bool) {
        let head: StaticString = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"
        _ = line.machine.sendHead(head.rawBytes, on: StreamID(number: stream), into: &line.output)
        answers[stream] = isHead ? [] : Self.content[...]
        if isHead { finish(stream) }
    }

    private mutating func finish(_ stream: UInt32) {
        answers[stream] = nil
        line.machine.sendEnd(on: StreamID(number: stream), into: &line.output)
        line.machine.release(StreamID(number: stream), into: &line.output)
    }
}
