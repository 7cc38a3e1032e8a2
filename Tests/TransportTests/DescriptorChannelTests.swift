import Glibc
import System
import Testing
import Transport
import Wire

/// The channel over which one process gives its listeners to another.
@Suite struct DescriptorChannelTests {
    private static let loopback = SocketAddress(parsing: "127.0.0.1:0")!

    private static func connect(to address: SocketAddress) throws -> Socket {
        switch Socket.connect(to: address) {
        case .connected(let socket), .inProgress(let socket): socket
        case .failed(let fault): throw fault
        }
    }

    @Test func connectionsThatWaitOnAListenerAreKeptWhenItChangesHands() throws {
        let (ours, theirs) = try DescriptorChannel.pair()
        let listener = try Socket.listen(on: Self.loopback)
        let address = try listener.localAddress()
        let clients = try (0..<3).map { _ in try Self.connect(to: address) }
        try ours.send("listener", [listener.descriptor])
        listener.close()
        guard case .message("listener", let descriptors) = theirs.receive(milliseconds: 5_000), descriptors.count == 1 else {
            Issue.record("no socket came")
            return
        }
        let sockets = descriptors.map { Socket(descriptor: $0) }
        #expect(try sockets[0].localAddress() == address && sockets[0].sharesPort)
        #expect(fcntl(sockets[0].descriptor, F_GETFD) & FD_CLOEXEC != 0)
        for _ in clients {
            guard case .accepted(let socket, _) = sockets[0].accept() else {
                Issue.record("a connection is gone")
                return
            }
            socket.close()
        }
        for socket in clients + sockets { socket.close() }
    }

    @Test func messagesKeepTheirBoundariesAndAnEndIsSeen() throws {
        let (ours, theirs) = try DescriptorChannel.pair()
        #expect({ if case .nothing = theirs.receive(milliseconds: 0) { true } else { false } }())
        try ours.send("one")
        try ours.send(String(repeating: "x", count: DescriptorChannel.maxMessage))
        for expected in [3, DescriptorChannel.maxMessage] {
            guard case .message(let text, let sockets) = theirs.receive(milliseconds: 5_000) else {
                Issue.record("no message")
                return
            }
            #expect(text.utf8.count == expected && sockets.isEmpty)
        }
        #expect(Self.isClosed(try Self.abandoned()))
    }

    /// The end of a pair whose other end is closed.
    private static func abandoned() throws -> DescriptorChannel { try DescriptorChannel.pair().0 }

    private static func isClosed(_ channel: DescriptorChannel) -> Bool {
        if case .closed = channel.receive(milliseconds: 5_000) { true } else { false }
    }

    @Test func asManySocketsAsTheKernelAllowsGoInOneMessage() throws {
        let (ours, theirs) = try DescriptorChannel.pair()
        let listener = try Socket.listen(on: Self.loopback)
        try ours.send("all", Array(repeating: listener.descriptor, count: DescriptorChannel.maxDescriptors))
        guard case .message("all", let descriptors) = theirs.receive(milliseconds: 5_000) else {
            Issue.record("no message")
            return
        }
        #expect(descriptors.count == DescriptorChannel.maxDescriptors)
        for socket in descriptors.map({ Socket(descriptor: $0) }) + [listener] { socket.close() }
    }

    @Test func anotherDescriptorIsNoChannel() throws {
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        defer { close(null) }
        let fault = #expect(throws: SystemFault.self) { try DescriptorChannel(adopting: null) }
        #expect(fault?.description.contains("descriptor \(null)") == true)
    }
}
