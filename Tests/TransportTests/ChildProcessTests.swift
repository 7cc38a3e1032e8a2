import Glibc
import System
import Testing
import Transport
import Wire

/// A program that is started with one end of a channel.
@Suite struct ChildProcessTests {
    private static let path = (name: "PATH", value: "/usr/local/bin:/usr/bin:/bin")

    /// Starts Python with the other end.
    private func start(_ program: String, _ variables: [(name: String, value: String)] = []) throws -> (ChildProcess, DescriptorChannel) {
        let (ours, theirs) = try DescriptorChannel.pair()
        let child = try withExtendedLifetime(theirs) {
            try ChildProcess("python3", arguments: ["-c", program], variables: [Self.path] + variables, giving: theirs.descriptor)
        }
        return (child, ours)
    }

    private func message(_ channel: DescriptorChannel) -> String? {
        if case .message(let text, _) = channel.receive(milliseconds: 20_000) { text } else { nil }
    }

    @Test func itAnswersConnectionsOfTheListenerThatItIsGiven() throws {
        let listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        let address = try listener.localAddress()
        guard case .inProgress(let client) = Socket.connect(to: address) else {
            Issue.record("no connection")
            return
        }
        let (child, channel) = try start(
            """
            import os, socket
            channel = socket.socket(fileno=3)
            text, descriptors, _, _ = socket.recv_fds(channel, 1024, 8)
            listener = socket.socket(fileno=descriptors[0])
            listener.setblocking(True)
            connection = listener.accept()[0]
            connection.sendall(text)
            channel.send(os.environ["WORD"].encode())
            """, [("WORD", "served")])
        try channel.send("hello", [listener.descriptor])
        listener.close()
        #expect(message(channel) == "served")
        #expect(wait(client, for: POLLIN))
        var room = [UInt8](repeating: 0, count: 64)
        #expect(recv(client.descriptor, &room, room.count, 0) == 5 && room.prefix(5).elementsEqual("hello".utf8))
        #expect({ if case .closed = channel.receive(milliseconds: 20_000) { true } else { false } }(), "its end is seen")
        #expect(child.end(within: 20_000) == "has ended with 0")
        client.close()
    }

    @Test func itHasNoOtherDescriptorOfThisProcess() throws {
        let null = open("/dev/null", O_RDONLY | O_CLOEXEC)
        // Numbers that the child's own descriptors do not have. libcurl opens some without O_CLOEXEC.
        let others = [fcntl(null, F_DUPFD_CLOEXEC, 100), fcntl(null, F_DUPFD, 100)]
        defer { for descriptor in [null] + others { close(descriptor) } }
        let (child, channel) = try start(
            """
            import os, socket
            # Reading the folder opens it, too.
            numbers = [int(name) for name in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + name)]
            socket.socket(fileno=3).send(" ".join(str(n) for n in sorted(numbers) if n > 2).encode())
            """)
        let numbers = try #require(message(channel)).split(separator: " ").compactMap { Int32($0) }
        #expect(numbers.contains(3) && !numbers.contains { others.contains($0) })
        #expect(channel.descriptor == 3 || !numbers.contains(channel.descriptor))
        #expect(child.end(within: 20_000) == "has ended with 0")
    }

    @Test func howItEndedIsToldAndOneThatRunsIsKilled() throws {
        let (ended, channel) = try start("import sys; sys.exit(7)")
        #expect({ if case .closed = channel.receive(milliseconds: 20_000) { true } else { false } }())
        #expect(ended.end(within: 20_000) == "has ended with 7")
        let (running, other) = try start("import socket, time; socket.socket(fileno=3).send(b'up'); time.sleep(600)")
        #expect(message(other) == "up")
        #expect(running.end() == "was ended by signal 9")
    }

    /// A program that sets a DNS record has two minutes.
    @Test func oneThatDoesNotEndInTimeIsKilledAndHasNoExitCode() throws {
        let (ended, _) = try start("import sys; sys.exit(7)")
        #expect(ended.exitCode(within: 20_000) == 7)
        let (stuck, channel) = try start("import time; time.sleep(600)")
        #expect(stuck.exitCode(within: 50) == nil)
        #expect({ if case .closed = channel.receive(milliseconds: 20_000) { true } else { false } }(), "it is gone")
    }

    @Test func aProgramThatIsNotThereIsNamed() throws {
        let (_, theirs) = try DescriptorChannel.pair()
        let fault = #expect(throws: SystemFault.self) {
            try ChildProcess("/nonexistent/program", arguments: [], variables: [], giving: theirs.descriptor)
        }
        #expect(fault?.description == "cannot start /nonexistent/program: no such file or directory")
    }
}
