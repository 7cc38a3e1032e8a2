import Testing
import Transport
import Wire

@testable import tollgate

/// The messages of a handover, and which listener gets which sockets.
@Suite struct HandoverTests {
    private static let port = SocketAddress(parsing: "127.0.0.1:8080")!
    private static let anyPort = SocketAddress(parsing: "127.0.0.1:0")!
    private static let path = SocketAddress(parsing: "unix:/run/toll gate/http")!
    /// Never used as descriptors.
    private static func sockets(_ numbers: Int32...) -> [Socket] { numbers.map { Socket(descriptor: $0 + 1_000_000) } }

    @Test func messagesAreReadAsTheyWereWritten() {
        let messages: [HandoverMessage] =
            ListenerKind.allCases.map { .listener($0, Self.port) } + [
                .listener(.http, Self.path), .listener(.https, SocketAddress(parsing: "[::1]:0")!),
            ]
            + [.complete, .ready, .yours]
        for message in messages { #expect(HandoverMessage(parsing: message.text) == message) }
    }

    @Test(arguments: [
        "", "ready", "tollgate-handover/2 ready", "tollgate-handover/1", "tollgate-handover/1 ready now",
        "tollgate-handover/1 listener http", "tollgate-handover/1 listener ftp 127.0.0.1:1", "tollgate-handover/1 listener http nowhere",
    ])
    func anotherVersionOrFormIsRefused(_ text: String) { #expect(HandoverMessage(parsing: text) == nil) }

    @Test func anAddressGetsAllOfItsSocketsOnce() {
        var listeners = InheritedListeners()
        listeners.add(.http, Self.port, Self.sockets(1, 2))
        listeners.add(.admin, Self.path, Self.sockets(4))
        listeners.add(.http, Self.port, Self.sockets(3))
        #expect(listeners.take(.http, Self.port) == Self.sockets(1, 2, 3))
        #expect(listeners.take(.http, Self.port) == [])
        #expect(listeners.groups.map(\.declared) == [Self.path])
    }

    @Test func anAddressKeepsItsSocketsWhenItsProtocolChangesButPortZeroIsNoAddress() {
        var listeners = InheritedListeners()
        listeners.add(.http, Self.port, Self.sockets(1))
        listeners.add(.http, Self.anyPort, Self.sockets(2))
        listeners.add(.admin, Self.anyPort, Self.sockets(3))
        #expect(listeners.take(.https, Self.port) == Self.sockets(1))
        #expect(listeners.take(.https, Self.anyPort) == [])
        #expect(listeners.take(.admin, Self.anyPort) == Self.sockets(3))
        #expect(listeners.take(.http, Self.anyPort) == Self.sockets(2))
    }
}
