internal import Gate
internal import HTTP
internal import Synchronization
internal import Threads
internal import Wire

/// Feeds the listeners of `/admin/api/live`, a beat each second. Without listeners it does not run, and no request pays for it: workers
/// are asked for refusals that they keep anyway.
final class LiveFeed: Sendable {
    static let maxListeners = 8
    private static let milliseconds: UInt64 = 1_000

    private struct Listener {
        var queue = LiveListener()
        /// nil until the head of its answer was sent.
        var write: (@Sendable (LocalStream.Part) -> Void)?
        /// Whether it may listen on.
        let mayListen: @Sendable () -> Bool
    }

    private struct State {
        var listeners: [Int: Listener] = [:]
        var number = 0
        var isRunning = false
    }

    private let gateway: any AdminGateway
    private let state = Mutex(State())

    init(_ gateway: any AdminGateway) { self.gateway = gateway }

    /// The events for one more listener, as long as `mayListen` says so; nil if there are too many.
    func listen(while mayListen: @escaping @Sendable () -> Bool) -> LocalStream? {
        let number = state.withLock { state -> Int? in
            guard state.listeners.count < Self.maxListeners else { return nil }
            state.number += 1
            state.listeners[state.number] = Listener(mayListen: mayListen)
            return state.number
        }
        guard let number else { return nil }
        return LocalStream(
            begin: { self.begin(number, $0) },
            taken: { self.state.withLock { $0.listeners[number]?.queue.taken() } },
            ended: { self.state.withLock { $0.listeners[number] = nil } })
    }

    private func begin(_ number: Int, _ write: @escaping @Sendable (LocalStream.Part) -> Void) {
        let starts = state.withLock { state in
            state.listeners[number]?.write = write
            defer { state.isRunning = true }
            return !state.isRunning
        }
        // Unstructured: the listeners come from loops. It ends when there are none.
        if starts { Task { await run() } }
    }

    private func run() async {
        var counts: [Int: Int] = [:]
        while true {
            let found = await gateway.newRefusals(since: counts, limit: LiveBeat.maxRefusals)
            counts = found.mapValues(\.count)
            var text = ByteBuffer(capacity: 4_096)
            let now = await GatewayNow(gateway)
            JSONWriter.append(to: &text) { GatewayNow.record.write(now, &$0) }
            deliver(LiveBeat(now: text.readable.array, Array(found.values)))
            await pause(milliseconds: Self.milliseconds)
            let isOver = state.withLock { state in
                state.isRunning = !state.listeners.isEmpty
                return !state.isRunning
            }
            if isOver { return }
        }
    }

    private func deliver(_ beat: LiveBeat) {
        for (number, listener) in state.withLock({ $0.listeners }) {
            guard let write = listener.write else { continue }
            guard listener.mayListen() else {
                write(.end)
                continue
            }
            if let text = state.withLock({ $0.listeners[number]?.queue.offer(beat) }) { write(.content(text)) }
        }
    }
}
