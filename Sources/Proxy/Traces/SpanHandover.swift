import Synchronization
package import Telemetry

/// Hands a worker's spans to the exporter: two buffers take turns, so the worker neither allocates nor waits.
package final class SpanHandover: Sendable {
    private let offered = Mutex<SpanBuffer>(SpanBuffer())
    private let wake: @Sendable () -> Void

    /// `wake` tells the exporter that there are spans; it must not block.
    package init(wake: @escaping @Sendable () -> Void = {}) { self.wake = wake }

    /// Exchanges the worker's buffer for the empty one, unless the exporter has not emptied it, or is just doing that. The worker's
    /// thread.
    func offer(_ spans: inout SpanBuffer) {
        let isTaken = offered.withLockIfAvailable { offered in
            guard offered.isEmpty else { return false }
            swap(&offered, &spans)
            return true
        }
        if isTaken == true { wake() }
    }

    /// Hands over all that is left, as far as it fits; waits for the exporter if it is just taking. The worker's thread, at its end.
    func handOver(_ spans: inout SpanBuffer) {
        offered.withLock { $0.append(contentsOf: spans) }
        spans.removeAll()
        wake()
    }

    /// Takes what the worker has offered, in exchange for the empty buffer. The exporter's thread.
    package func take(_ spans: inout SpanBuffer) { offered.withLock { swap(&$0, &spans) } }
}
