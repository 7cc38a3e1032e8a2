import Foundation
import Glibc
import Synchronization
import Threads
import Transport
import Wire

/// A scripted server on a thread of its own: `behave` handles each connection in turn.
final class FakeServer: Sendable {
    let address: SocketAddress
    private let listener: Socket
    private let thread: WorkerThread
    private let isEnding: SharedFlag
    private let served: SharedCount

    /// `behave` gets a connection and its number, from 0 on; the connection is closed when it returns.
    init(_ behave: @escaping @Sendable (FakePeer, Int) -> Void) throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        self.listener = listener
        address = try listener.localAddress()
        let isEnding = SharedFlag()
        let served = SharedCount()
        self.isEnding = isEnding
        self.served = served
        thread = try WorkerThread(name: "fake") {
            while !isEnding.value.load(ordering: .acquiring) {
                guard isReady(listener, milliseconds: 20), case .accepted(let socket, _) = listener.accept() else { continue }
                behave(FakePeer(socket: socket, isEnding: isEnding), served.next())
                socket.close()
            }
        }
    }

    var url: String { "redis://\(address)" }

    /// Number of connections handled so far.
    var connections: Int { served.value.load(ordering: .relaxed) }

    deinit {
        isEnding.value.store(true, ordering: .releasing)
        thread.join()
        listener.close()
    }
}

final class SharedFlag: Sendable {
    let value = Atomic<Bool>(false)
}

final class SharedCount: Sendable {
    let value = Atomic<Int>(0)
    func next() -> Int { value.wrappingAdd(1, ordering: .relaxed).oldValue }
}

/// One connection of a fake server's, blocking.
struct FakePeer: Sendable {
    let socket: Socket
    let isEnding: SharedFlag

    /// Waits until something was received, and answers it; nil at the end of the connection or of the test.
    func hear() -> [UInt8]? {
        var buffer = ByteBuffer()
        while !isEnding.value.load(ordering: .acquiring) {
            guard isReady(socket, milliseconds: 20) else { continue }
            switch socket.receive(into: &buffer, upTo: 65_536) {
            case .done: return buffer.readable.array
            case .wouldBlock: continue
            case .closed, .failed: return nil
            }
        }
        return nil
    }

    /// Waits until the other side has gone.
    func hearAll() {
        while hear() != nil {}
    }

    /// False if the other side has gone.
    @discardableResult
    func say(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count, !isEnding.value.load(ordering: .acquiring) {
            switch socket.send(bytes.rawBytes.dropping(sent)) {
            case .done(let count): sent += count
            case .wouldBlock: _ = isReady(socket, for: POLLOUT, milliseconds: 20)
            case .closed, .failed: return false
            }
        }
        return sent == bytes.count
    }
}

private func isReady(_ socket: Socket, for events: Int32 = POLLIN, milliseconds: Int32) -> Bool {
    var entry = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
    return poll(&entry, 1, milliseconds) == 1
}
