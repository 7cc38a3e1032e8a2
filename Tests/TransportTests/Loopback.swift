import Glibc
import System
import Testing
import Transport
import Wire

/// Waits until `socket` is ready; false after thirty seconds, which no test needs.
func wait(_ socket: Socket, for events: Int32) -> Bool {
    var entry = pollfd(fd: socket.descriptor, events: Int16(events), revents: 0)
    return poll(&entry, 1, 30_000) == 1
}

/// A listener on a free port of 127.0.0.1, and its address.
func listenLocally(_ text: String = "127.0.0.1:0") throws -> (Socket, SocketAddress) {
    let listener = try Socket.listen(on: try #require(SocketAddress(parsing: text)))
    return (listener, try listener.localAddress())
}

func accept(_ listener: Socket) throws -> (Socket, SocketAddress) {
    try #require(wait(listener, for: POLLIN))
    guard case .accepted(let socket, let peer) = listener.accept() else { throw TestFault("nothing to accept") }
    return (socket, peer)
}

func connect(to address: SocketAddress) throws -> Socket {
    switch Socket.connect(to: address) {
    case .connected(let socket): return socket
    case .inProgress(let socket):
        try #require(wait(socket, for: POLLOUT))
        try #require(socket.takeError() == 0)
        return socket
    case .failed(let fault): throw fault
    }
}

/// Both ends of a connection over loopback: the one that connected, and the accepted one.
func pair(_ text: String = "127.0.0.1:0") throws -> (client: Socket, server: Socket) {
    let (listener, address) = try listenLocally(text)
    defer { listener.close() }
    let client = try connect(to: address)
    return (client, try accept(listener).0)
}

/// Reads until `count` bytes are there.
func read(_ socket: Socket, _ count: Int) throws -> [UInt8] {
    var buffer = ByteBuffer()
    while buffer.count < count {
        switch socket.receive(into: &buffer, upTo: count - buffer.count) {
        case .done: continue
        case .wouldBlock: try #require(wait(socket, for: POLLIN))
        case .closed: throw TestFault("closed after \(buffer.count) bytes")
        case .failed(let number): throw TestFault(systemErrorText(number))
        }
    }
    return buffer.readable.array
}

/// Sends all of it.
func write(_ bytes: [UInt8], to socket: Socket) throws {
    var sent = 0
    while sent < bytes.count {
        switch socket.send(bytes.rawBytes.dropping(sent)) {
        case .done(let count): sent += count
        case .wouldBlock: try #require(wait(socket, for: POLLOUT))
        case .closed: throw TestFault("closed")
        case .failed(let number): throw TestFault(systemErrorText(number))
        }
    }
}

struct TestFault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A folder that goes away with its owner.
final class Folder: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/transport-XXXXXX".utf8CString)
        path = String(cString: try #require(mkdtemp(&template)))
    }

    deinit {
        guard let folder = opendir(path) else { return }
        while let entry = readdir(folder) {
            let name = withUnsafeBytes(of: &entry.pointee.d_name) {
                String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
            }
            unlink(path + "/" + name)
        }
        closedir(folder)
        rmdir(path)
    }

    func file(_ name: String) -> String { path + "/" + name }
}
