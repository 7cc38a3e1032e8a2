internal import Fetch
internal import Settings
internal import Synchronization
internal import System
internal import Threads
internal import Transport
internal import Wire

/// Questions to many servers side by side, each on a thread of its own, so that none waits for another.
final class ProbeRun: Sendable {
    struct Probe: Sendable {
        /// Its subject, for the finding where it does not end in time.
        let name: String
        let run: @Sendable () -> ProbeReport
    }

    private let reports: Mutex<[ProbeReport?]>
    private let waker: Waker

    private init(_ count: Int) throws(SystemFault) {
        reports = Mutex(Array(repeating: nil, count: count))
        waker = try Waker()
    }

    /// The reports in the order of the probes. After `milliseconds` those that have not ended are failures; their threads end by
    /// themselves or with the process.
    static func all(_ probes: [Probe], milliseconds: UInt64) throws(SystemFault) -> [ProbeReport] {
        let run = try ProbeRun(probes.count)
        for (index, probe) in probes.enumerated() {
            // Dropped, which detaches it.
            _ = try WorkerThread(name: "probe") { run.ended(index, probe.run()) }
        }
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: milliseconds)
        while run.reports.withLock({ $0.contains { $0 == nil } }) {
            let now = EventLoop.now().monotonic
            guard now < deadline else { break }
            run.waker.wait(milliseconds: Int32(clamping: deadline.nanoseconds(since: now) / 1_000_000 + 1))
        }
        return zip(probes, run.reports.withLock { $0 }).map { probe, report in
            report
                ?? ProbeReport([
                    .fail(
                        probe.name,
                        "did not answer within \(DurationText.text(milliseconds)): see whether it, or its DNS, is overloaded or away")
                ])
        }
    }

    private func ended(_ index: Int, _ report: ProbeReport) {
        reports.withLock { $0[index] = report }
        waker.wake()
    }
}

/// One request for a probe.
enum ProbeTransfer {
    private static let milliseconds = 4_000
    private static let largestAnswer = 1 << 20

    struct Answer {
        let status: Int
        let body: [UInt8]
        let contentType: String?
        /// nil without a `Date`.
        let clock: ClockReading?
    }

    struct Fault: Error {
        let reason: String
    }

    /// Blocks for up to 4 s. A body above 1 MiB is cut off, and counts as none.
    static func get(
        _ url: String, source: String, redirects: Int = 0, unixSocket: String? = nil, authorityFile: String? = nil
    ) throws(Fault) -> Answer {
        let request = HTTPTransfer(
            url: url, connectMilliseconds: milliseconds / 2, totalMilliseconds: milliseconds, largestBody: largestAnswer,
            redirects: redirects, unixSocket: unixSocket, authorityFile: authorityFile)
        return try run(request, source: source)
    }

    /// Like `get`, with a body of JSON for a collector of traces.
    static func post(_ body: String, to url: String, of plan: TracePlan) throws(Fault) -> Answer {
        let request = plan.request(
            to: url, connectMilliseconds: milliseconds / 2, totalMilliseconds: milliseconds, largestBody: largestAnswer,
            body: Array(body.utf8))
        return try run(request, source: "the collector of traces")
    }

    private static func run(_ request: HTTPTransfer, source: String) throws(Fault) -> Answer {
        let start = EventLoop.now()
        let ended = TransferGroup.send(request)
        let end = EventLoop.now()
        if let failure = ended.failure, !ended.isTooLarge { throw Fault(reason: failure) }
        return Answer(
            status: ended.status, body: ended.isTooLarge ? [] : ended.body, contentType: ended.contentType,
            clock: clock(ended, source, start, end))
    }

    private static func clock(_ ended: EndedTransfer, _ source: String, _ start: Moment, _ end: Moment) -> ClockReading? {
        // A cache tells the age of its copy, not the time.
        guard ended.age == nil, let date = ended.date?.withRawBytes(HTTPDate.parse) else { return nil }
        // `Date` counts whole seconds.
        return ClockReading(source: source, theirs: Double(date.seconds) + 0.5, resolution: 1, from: start, to: end)
    }
}

extension ClockReading {
    /// `theirs` was told between two moments of ours, in seconds since 1970; `resolution` in seconds.
    init(source: String, theirs: Double, resolution: Double, from start: Moment, to end: Moment) {
        let seconds = { (moment: Moment) in Double(moment.wall.microseconds) / 1_000_000 }
        let half = (seconds(end) - seconds(start)) / 2
        self.init(source: source, offset: theirs - seconds(start) - half, uncertainty: abs(half) + resolution / 2)
    }
}
