import Glibc
import Synchronization
import Threads
import Transport
import Wire

@testable import Redis

/// A sentinel that answers what a test says, to any number of connections at once.
final class FakeSentinel: Sendable {
    struct Mood: Sendable {
        /// nil: it knows no master.
        var port: UInt16?
        var epoch = 0
        /// Reads nothing, and answers when that is over.
        var isSilent = false
    }

    let address: SocketAddress
    private let state: Mutex<Mood>
    private let switches = Atomic<Int>(0)
    private let connections = Atomic<Int>(0)
    private let isEnding = Atomic<Bool>(false)
    private let thread = Mutex<WorkerThread?>(nil)

    init(_ mood: Mood) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        address = try listener.localAddress()
        state = Mutex(mood)
        let started = try WorkerThread(name: "fake sentinel") { [weak self] in
            var peers: [Socket] = []
            var subscribed: Set<Int32> = []
            var told = 0
            while let self, !self.isEnding.load(ordering: .acquiring) {
                if case .accepted(let socket, _) = listener.accept() {
                    peers.append(socket)
                    self.connections.wrappingAdd(1, ordering: .relaxed)
                }
                peers.removeAll { peer in
                    guard self.serve(peer, &subscribed) else {
                        subscribed.remove(peer.descriptor)
                        peer.close()
                        return true
                    }
                    return false
                }
                if self.switches.load(ordering: .acquiring) > told {
                    told += 1
                    for peer in peers where subscribed.contains(peer.descriptor) {
                        Self.say("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n", to: peer)
                    }
                }
                usleep(1_000)
            }
            for peer in peers { peer.close() }
            listener.close()
        }
        thread.withLock { $0 = started }
    }

    /// Connections so far.
    var accepted: Int { connections.load(ordering: .relaxed) }

    /// Ends it: connections are closed and refused.
    func end() {
        isEnding.store(true, ordering: .releasing)
        thread.withLock { $0 }?.join()
    }

    deinit { isEnding.store(true, ordering: .releasing) }

    func change(_ body: (inout Mood) -> Void) { state.withLock { body(&$0) } }

    /// Publishes `+switch-master`.
    func announce() { switches.wrappingAdd(1, ordering: .releasing) }

    /// False once the other side has gone.
    private func serve(_ peer: Socket, _ subscribed: inout Set<Int32>) -> Bool {
        let mood = state.withLock { $0 }
        guard !mood.isSilent else { return true }
        var buffer = ByteBuffer()
        switch peer.receive(into: &buffer, upTo: 65_536) {
        case .wouldBlock: return true
        case .closed, .failed: return false
        case .done: break
        }
        // Commands come whole here: they are short, and sent by one write.
        for word in buffer.readable.text.split(separator: "\r\n") {
            switch word {
            case "SUBSCRIBE":
                subscribed.insert(peer.descriptor)
                Self.say("*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n", to: peer)
            case "PING": Self.say("*2\r\n$4\r\npong\r\n$0\r\n\r\n", to: peer)
            case "MASTER":
                Self.say(
                    mood.port == nil
                        ? "-ERR No such master with that name\r\n"
                        : "*4\r\n$4\r\nname\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$\("\(mood.epoch)".count)\r\n\(mood.epoch)\r\n", to: peer)
            case "GET-MASTER-ADDR-BY-NAME":
                Self.say(mood.port.map { "*2\r\n$9\r\n127.0.0.1\r\n$\("\($0)".count)\r\n\($0)\r\n" } ?? "*-1\r\n", to: peer)
            default: break
            }
        }
        return true
    }

    private static func say(_ text: String, to peer: Socket) { _ = peer.send(Array(text.utf8).rawBytes) }
}
