import HTTP2Cases
import TestThreads
import Testing

/// Every case of `Tests/HTTP2Cases/Documents` against a gateway.
@Suite(.ownThread) struct HTTP2ConformanceTests {
    @Test func everyCaseComesOutAsItSays() throws {
        let upstream = try Upstream(Upstream.saying("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nanswer"))
        let gateway = try Gateway(HTTP2Tests.settings(upstream))
        for each in try HTTP2Case.all() {
            do {
                let fault = try play(each, gateway)
                #expect(fault == nil)
            } catch {
                Issue.record("\(each.name), \(each.title): \(error)")
            }
        }
        #expect(gateway.process.isRunning)
    }

    private func play(_ each: HTTP2Case, _ gateway: Gateway) throws -> String? {
        var run = Run(try gateway.connect())
        if each.isGreeted {
            try run.connection.send(FrameNotation.preface + FrameNotation.emptySettings)
            try run.take(until: "SETTINGS ack")
            run.frames = []
        }
        for step in each.steps {
            switch step {
            case .send(let bytes): try run.connection.send(bytes)
            case .wait(let frame): try run.take(until: frame)
            }
        }
        if each.outcome == "closed" {
            guard run.connection.takeRest().end != .silence else { return "\(each.name), \(each.title): the connection stays" }
        } else {
            try run.take(until: each.outcome)
        }
        return each.fault(in: run.frames)
    }

    /// A connection and the frames that came on it.
    private struct Run {
        let connection: Connection
        var frames: [String] = []
        private var waiting: [UInt8] = []

        init(_ connection: Connection) {
            self.connection = connection
            connection.setTimeout(seconds: 30)
        }

        mutating func take(until frame: String) throws {
            while !frames.contains(where: { FrameNotation.begins($0, with: frame) }) {
                do { waiting += try connection.takeSome() } catch { throw Fault("\(frame) does not come, but \(frames): \(error)") }
                let (found, count) = FrameNotation.describe(waiting)
                frames += found
                waiting.removeFirst(count)
            }
        }
    }
}
