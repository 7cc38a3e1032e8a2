internal import Credentials
internal import Fetch
internal import Proxy
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// The exporter's settings.
struct TracePlan: Equatable, Sendable {
    /// nil: spans that come all the same are dropped.
    var url: String?
    /// Lines for each request.
    var fields: [String]
    var authorityFile: String?
    var clientCertificate: String?
    var clientKey: String?
    var timeoutMilliseconds: Int
    var resource: TraceResource
    var limits: SpanExportQueue.Limits

    /// A POST of `body`; `url` is the collector's.
    func request(to url: String, connectMilliseconds: Int, totalMilliseconds: Int, largestBody: Int, body: [UInt8]) -> HTTPTransfer {
        HTTPTransfer(
            url: url, connectMilliseconds: connectMilliseconds, totalMilliseconds: totalMilliseconds, largestBody: largestBody, body: body,
            authorityFile: authorityFile, clientCertificate: clientCertificate, clientKey: clientKey, fields: fields)
    }

    /// `instance` tells this process from others of the service.
    init(_ settings: TraceSettings, instance: String) {
        url = settings.url
        // Without `Expect`, for which libcurl would wait a second at servers that do not know it.
        fields = ["Expect:"] + settings.headers.map { "\($0.name): \($0.value)" }
        authorityFile = settings.authorityFile
        (clientCertificate, clientKey) = (settings.clientCertificate, settings.clientKey)
        timeoutMilliseconds = settings.timeoutMilliseconds
        resource = TraceResource(serviceName: settings.serviceName, given: settings.resource, instance: instance)
        limits = settings.limits
    }
}

/// The thread that sends the workers' spans to a collector, as OTLP over HTTP in JSON. It starts with the first configuration that has
/// a collector. A collector that is slow or away costs spans, which are counted, and nothing else.
final class SpanExporter: Sendable {
    private struct State {
        var plan: TracePlan
        var counts = SpanCounts()
        var thread: WorkerThread?
        var isEnding = false
    }

    /// One for each worker.
    let handovers: [SpanHandover]
    private let instance: String
    private let waker: LateWaker
    private let log: ServerLog
    private let state: Mutex<State>

    init(_ settings: TraceSettings, workers: Int, log: ServerLog) throws(SystemFault) {
        let waker = LateWaker()
        handovers = (0..<workers).map { _ in SpanHandover { waker.wake() } }
        self.waker = waker
        let words = (0..<2).map { _ in SecureRandom.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }
        instance = UUID(random: (words[0], words[1])).text
        self.log = log
        state = Mutex(State(plan: TracePlan(settings, instance: instance)))
        try startIfNeeded()
    }

    var counts: SpanCounts { state.withLock { $0.counts } }

    /// Adopts another configuration. Spans that wait go to the collector that it names.
    func adopt(_ settings: TraceSettings) {
        state.withLock { $0.plan = TracePlan(settings, instance: instance) }
        do throws(SystemFault) {
            try startIfNeeded()
        } catch {
            log.error("no traces are sent", ("error", error.description))
        }
        waker.wake()
    }

    /// Milliseconds that the last spans have to reach the collector.
    private static let flushTime: UInt64 = 3_000

    /// Sends what is left, for at most three seconds, and ends the thread. After the workers have ended. Blocks.
    func stop() {
        let thread = state.withLock { state in
            state.isEnding = true
            return state.thread
        }
        waker.wake()
        thread?.join()
    }

    private func startIfNeeded() throws(SystemFault) {
        try state.withLock { state throws(SystemFault) in
            guard state.thread == nil, state.plan.url != nil else { return }
            state.thread = try WorkerThread(name: "spans") { [self] in run() }
        }
    }

    private func run() {
        guard let group = TransferGroup() else { preconditionFailure("libcurl has no memory") }
        waker.set(group.waker)
        var (plan, isEnding) = state.withLock { ($0.plan, $0.isEnding) }
        var run = SpanExportRun(plan, group, log)
        var endsAt: MonotonicTime?
        while true {
            for handover in handovers { run.take(handover) }
            let now = EventLoop.now().monotonic
            if isEnding {
                endsAt = endsAt ?? now.advanced(milliseconds: Self.flushTime)
                run.end()
            }
            if let endsAt, run.isEmpty || now >= endsAt { break }
            run.turn(longest: endsAt == nil ? 60_000 : 50)
            let counts = run.queue.counts
            (plan, isEnding) = state.withLock { state in
                state.counts = counts
                return (state.plan, state.isEnding)
            }
            run.adopt(plan)
        }
        run.queue.dropAll(.ended)
        let counts = run.queue.counts
        state.withLock { $0.counts = counts }
    }
}

/// The exporter thread's own state.
private struct SpanExportRun: ~Copyable {
    private var plan: TracePlan
    private let group: TransferGroup
    private let log: ServerLog
    var queue: SpanExportQueue
    private var spans = SpanBuffer()
    private var random: SplitMix64
    private var transfers = 0
    /// Whether the last batch was not taken, which is logged once.
    private var isAway = false

    init(_ plan: TracePlan, _ group: TransferGroup, _ log: ServerLog) {
        self.plan = plan
        self.group = group
        self.log = log
        queue = SpanExportQueue(plan.limits)
        random = SplitMix64(seed: EventLoop.now().monotonic.nanoseconds)
    }

    var isEmpty: Bool { queue.count == 0 }

    mutating func adopt(_ plan: TracePlan) {
        guard plan != self.plan else { return }
        self.plan = plan
        queue.limits = plan.limits
        if plan.url == nil { queue.dropAll(.ended) }
    }

    mutating func end() { queue.end() }

    /// Takes what a worker has recorded.
    mutating func take(_ handover: SpanHandover) {
        var spans = SpanBuffer()
        swap(&spans, &self.spans)
        defer { swap(&spans, &self.spans) }
        handover.take(&spans)
        guard !spans.isEmpty else { return }
        let now = EventLoop.now().monotonic
        queue.lost(spans.dropped, .worker)
        if plan.url == nil {
            queue.lost(UInt64(spans.count), .ended)
        } else {
            spans.forEach { queue.add(SpanDocument.span($0, $1), at: now) }
        }
        spans.removeAll()
    }

    /// Sends a batch if one is due, and waits for an answer or more spans, for at most `longest` milliseconds.
    mutating func turn(longest: Int32) {
        if let url = plan.url, let batch = queue.next(at: EventLoop.now().monotonic) { send(batch, to: url) }
        let pause = queue.pause(at: EventLoop.now().monotonic, longest: longest)
        for answer in group.wait(milliseconds: pause) where answer.id == transfers { answered(answer) }
    }

    private mutating func send(_ batch: ArraySlice<[UInt8]>, to url: String) {
        transfers += 1
        let request = plan.request(
            to: url, connectMilliseconds: plan.timeoutMilliseconds, totalMilliseconds: plan.timeoutMilliseconds, largestBody: 65_536,
            body: SpanDocument.render(batch, of: plan.resource))
        guard !group.start(transfers, request) else { return }
        ended(.refused, "libcurl refuses the URL")
    }

    private mutating func answered(_ answer: EndedTransfer) {
        let failure = answer.isTooLarge ? nil : answer.failure
        let outcome = SpanExportOutcome(
            status: failure == nil ? answer.status : 0, retryAfter: answer.retryAfter, body: answer.body, now: EventLoop.now().wall)
        ended(outcome, failure ?? "status \(answer.status)")
    }

    private mutating func ended(_ outcome: SpanExportOutcome, _ reason: String) {
        queue.ended(outcome, at: EventLoop.now().monotonic, jitter: random.next())
        switch outcome {
        case .taken(let rejected):
            if isAway { log.info("the collector of traces takes spans again") }
            isAway = false
            if rejected > 0 { log.warning("the collector of traces rejected spans", ("count", "\(rejected)")) }
        case .retry, .refused:
            if !isAway { log.warning("the collector of traces does not take spans", ("error", reason)) }
            isAway = true
        }
    }
}

/// The waker of a group that another thread makes later.
private final class LateWaker: Sendable {
    private let waker = Mutex<TransferWaker?>(nil)

    func set(_ waker: TransferWaker) { self.waker.withLock { $0 = waker } }
    func wake() { waker.withLock { $0 }?.wake() }
}
