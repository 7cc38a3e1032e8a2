import Gate
import Glibc
import HTTP
import Synchronization
import TestThreads
import Testing
import Threads
import Transport
import Wire

@testable import Proxy

/// Local answers whose content follows in parts.
@Suite(.ownThread) struct LocalStreamTests {
    /// A source that the test writes by, and that counts what it is told.
    private final class Source: Sendable {
        struct Told: Equatable {
            var begun = 0
            var taken = 0
            var ended = 0
        }

        let told = Mutex(Told())
        private let writer = Mutex<(@Sendable (LocalStream.Part) -> Void)?>(nil)

        var handler: LocalHandler {
            { [self] _ in
                var response = LocalResponse(status: 200, contentType: "text/event-stream", body: [])
                response.stream = LocalStream(
                    begin: { write in
                        self.writer.withLock { $0 = write }
                        self.told.withLock { $0.begun += 1 }
                    }, taken: { self.told.withLock { $0.taken += 1 } }, ended: { self.told.withLock { $0.ended += 1 } })
                return response
            }
        }

        func write(_ text: String) { writer.withLock { $0 }?(.content(Array(text.utf8))) }
        func end() { writer.withLock { $0 }?(.end) }

        func wait(_ what: String, until condition: (Told) -> Bool) throws {
            for _ in 0..<30_000 {
                if condition(told.withLock { $0 }) { return }
                usleep(1_000)
            }
            throw TestFault("\(what): \(told.withLock { $0 })")
        }
    }

    private func run(_ source: Source, settings: WorkerSettings = WorkerSettings()) throws -> RunningWorker {
        let rule = RouteRule(name: "live", path: "/live", isPrefix: false, target: .local(0), auth: .none)
        return try RunningWorker([rule], upstreams: [], settings: settings, local: [source.handler])
    }

    private func listen(_ worker: RunningWorker, _ source: Source, version: String = "1.1", receiveBuffer: Int32? = nil) throws -> Line {
        let begun = source.told.withLock { $0.begun }
        let client = try receiveBuffer.map { try Line(to: worker.address, receiveBuffer: $0) } ?? Line(to: worker.address)
        try client.send("GET /live HTTP/\(version)\r\nHost: h\r\n\r\n")
        _ = try client.receive(until: "\r\n\r\n")
        try source.wait("begun") { $0.begun == begun + 1 }
        return client
    }

    @Test func partsArriveAsTheyAreWrittenAndTheConnectionServesOn() throws {
        let source = Source()
        let worker = try run(source)
        let client = try listen(worker, source)
        for number in 1...3 {
            source.write("event \(number)")
            #expect(try client.receive(until: "event \(number)\r\n").hasSuffix("7\r\nevent \(number)\r\n"))
            try source.wait("taken") { $0.taken >= number }
        }
        source.end()
        #expect(try client.receive(until: "0\r\n\r\n").hasSuffix("0\r\n\r\n"))
        try source.wait("ended") { $0.ended == 1 }
        source.write("too late")
        try client.send("GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(try client.receiveMessage().hasPrefix("HTTP/1.1 404"))
        worker.stop()
        #expect(source.told.withLock { $0.ended } == 1)
    }

    @Test func anOldClientReadsToTheEndOfTheConnection() throws {
        let source = Source()
        let worker = try run(source)
        let client = try listen(worker, source, version: "1.0")
        source.write("all")
        source.end()
        let rest = try client.receiveAll()
        #expect(rest.text == "all")
        worker.stop()
    }

    /// Nothing is asked for while the last part waits, so that no more than one part waits for such a client.
    @Test func aClientThatDoesNotReadIsSentNoMoreAndEnded() throws {
        let source = Source()
        var settings = WorkerSettings()
        settings.sendTimeout = 300
        let worker = try run(source, settings: settings)
        let client = try listen(worker, source, receiveBuffer: 4_096)
        let taken = source.told.withLock { $0.taken }
        source.write(String(repeating: "x", count: 32 << 20))
        try source.wait("ended") { $0.ended == 1 }
        #expect(source.told.withLock { $0.taken } == taken, "it never took the part")
        #expect(worker.census { $0.isAtRest }.isAtRest)
        client.close()
        worker.stop()
    }

    @Test func aClientThatGoesFreesItsSource() throws {
        let source = Source()
        let worker = try run(source)
        for number in 1...5 {
            let client = try listen(worker, source)
            client.reset()
            try source.wait("ended") { $0.ended == number }
        }
        #expect(worker.census { $0.isAtRest }.isAtRest)
        worker.stop()
        #expect(source.told.withLock { $0 }.ended == 5)
    }

    @Test func aDrainEndsIt() throws {
        let source = Source()
        let worker = try run(source)
        let client = try listen(worker, source)
        source.write("last")
        _ = try client.receive(until: "last\r\n")
        worker.mailbox.post(.drain(within: 60_000))
        let rest = try client.receiveAll()
        #expect(rest.text == "0\r\n\r\n")
        worker.join()
        #expect(source.told.withLock { $0.ended } == 1)
    }

    /// The client goes, or the worker ends, while the handler still works: the source is told all the same.
    @Test func aSourceThatNeverBeganIsToldOfItsEnd() throws {
        let source = Source()
        final class Gate: Sendable {
            let isOpen = Mutex(false)
            let asked = Mutex(0)
        }
        let gate = Gate()
        let rule = RouteRule(name: "live", path: "/live", isPrefix: false, target: .local(0), auth: .none)
        let inner = source.handler
        let worker = try RunningWorker(
            [rule], upstreams: [],
            local: [
                { request in
                    gate.asked.withLock { $0 += 1 }
                    while !gate.isOpen.withLock({ $0 }) { await pause(milliseconds: 1) }
                    return await inner(request)
                }
            ])
        let client = try Line(to: worker.address)
        try client.send("GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in 0..<10_000 where gate.asked.withLock({ $0 }) == 0 { usleep(1_000) }
        client.reset()
        #expect(worker.census { $0.isAtRest }.isAtRest)
        let second = try Line(to: worker.address)
        try second.send("GET /live HTTP/1.1\r\nHost: h\r\n\r\n")
        for _ in 0..<10_000 where gate.asked.withLock({ $0 }) == 1 { usleep(1_000) }
        worker.stop()
        gate.isOpen.withLock { $0 = true }
        try source.wait("ended") { $0.ended == 2 }
        #expect(source.told.withLock { $0.begun } == 0)
        second.close()
    }
}
