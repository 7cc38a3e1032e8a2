import Transport
import Wire

/// The clients' side of one worker: its listeners, the connections of clients, and their clocks.
struct Downstream: ~Copyable {
    var listeners: [Listener]
    var clients = Slab<Client> { Client() }
    var timers: TimerWheel
    /// Connections of the admin listeners: a drain does not wait for them.
    var adminClients = 0
    /// When listening is tried again after the process had no descriptor left.
    var acceptPausedUntil: MonotonicTime?

    init(_ listeners: [Listener], now: MonotonicTime) {
        self.listeners = listeners
        timers = TimerWheel(now: now)
    }

    // MARK: listening

    func watchListeners(in loop: borrowing EventLoop) throws(SystemFault) {
        for index in listeners.indices {
            try loop.add(listeners[index].socket, token: Token(listener: index).bits, .read)
        }
    }

    /// Stops accepting for a moment; `isServing` says whether the listeners of routes are still open.
    mutating func pauseAccepting(at now: MonotonicTime, isServing: Bool, in loop: borrowing EventLoop) {
        watchListeners(for: Interest(), isServing, loop)
        acceptPausedUntil = now.advanced(milliseconds: 100)
    }

    mutating func resumeAccepting(isServing: Bool, in loop: borrowing EventLoop) {
        acceptPausedUntil = nil
        watchListeners(for: .read, isServing, loop)
    }

    /// While draining, the descriptor of a closed listener may be another socket's.
    private func watchListeners(for interest: Interest, _ isServing: Bool, _ loop: borrowing EventLoop) {
        for index in listeners.indices where isServing || listeners[index].isAdmin {
            do throws(SystemFault) {
                try loop.modify(listeners[index].socket, token: Token(listener: index).bits, interest)
            } catch {
                // The kernel has no reason to refuse this for a socket that it watches.
            }
        }
    }

    // MARK: clocks

    /// How long a TLS connection is idle before it gives its buffers back, in milliseconds. At once, and a busy connection
    /// would take and give back memory for each request.
    private static var restAfter: UInt64 { 50 }

    /// The time between two requests begins.
    mutating func startIdling(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        let end = now.advanced(milliseconds: timeout)
        guard !clients[client].connection.isPlain, timeout > Self.restAfter else {
            return timers.set(client.id, deadline: end)
        }
        clients[client].idlesUntil = end
        timers.set(client.id, deadline: now.advanced(milliseconds: Self.restAfter))
    }

    /// The time that a body may take begins.
    mutating func startBodyClock(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        clients[client].arrival.begin(at: now)
        setBodyDeadline(client, timeout: timeout)
    }

    /// A body may take the body timeout, and then must have arrived at 1 KiB a second on average.
    mutating func setBodyDeadline(_ client: ClientIndex, timeout: UInt64) {
        timers.set(client.id, deadline: clients[client].arrival.deadline(allowance: timeout))
    }

    /// Bytes begin to wait for the client; nothing does so far.
    mutating func beginWaiting(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        guard !clients[client].hasUnsent else { return }
        clients[client].taking.begin(at: now)
        setTakingDeadline(client, at: now, timeout: timeout)
    }

    /// Of what waits, the client must take something within the send timeout, and in the long run 1 KiB a second.
    mutating func setTakingDeadline(_ client: ClientIndex, at now: MonotonicTime, timeout: UInt64) {
        let next = now.advanced(milliseconds: timeout)
        timers.set(client.id, deadline: min(next, clients[client].taking.deadline(allowance: timeout)))
    }

    // MARK: the end

    /// Gives the index back. The request under way, if any, must have ended.
    mutating func close(_ client: ClientIndex, resets: Bool = false) {
        timers.clear(client.id)
        if listeners[clients[client].listener].isAdmin { adminClients -= 1 }
        clients[client].close(resets: resets)
        clients.release(client)
    }
}
