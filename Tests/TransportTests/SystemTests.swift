import Glibc
import Synchronization
import System
import Testing
import Threads
import Wire

@Suite struct SystemFaultTests {
    @Test(arguments: [
        (EADDRINUSE, "cannot listen: address already in use"), (ENOENT, "cannot listen: no such file or directory"),
        (EACCES, "cannot listen: permission denied"),
    ])
    func `a fault is a sentence`(_ number: Int32, _ sentence: String) {
        #expect(SystemFault("listen", errno: number).description == sentence)
    }

    @Test func `names inside the system's words keep their capitals`() {
        #expect(systemErrorText(EDOTDOT) == "RFS specific error")
    }
}

@Suite struct FileBytesTests {
    @Test func `a file holds what was written last, with the mode asked for`() throws {
        let folder = try Folder()
        let path = folder.file("keys")
        try FileBytes.write([1, 2, 3], to: path)
        #expect(try FileBytes.read(path, limit: 3) == [1, 2, 3])
        let first = try FileBytes.stamp(path)
        #expect(first.mode == 0o600)
        #expect(first.size == 3)
        try FileBytes.write([], to: path, mode: 0o644)
        #expect(try FileBytes.read(path, limit: 0) == [])
        #expect(try FileBytes.stamp(path).mode == 0o644)
        #expect(try FileBytes.stamp(path) != first)
    }

    @Test func `a file that replaces another keeps its owner and group`() throws {
        let folder = try Folder()
        let path = folder.file("settings")
        try FileBytes.write([1], to: path)
        // Root may give a file to any group.
        let group = geteuid() == 0 ? 4242 : getegid()
        #expect(chown(path, geteuid(), group) == 0)
        let old = try FileBytes.stamp(path)
        try FileBytes.write([2, 3], to: path, mode: 0o640, replacing: old)
        let new = try FileBytes.stamp(path)
        #expect(new.owner == geteuid() && new.group == group && new.mode == 0o640)
        #expect(try FileBytes.read(path, limit: 2) == [2, 3])
    }

    @Test func `a file longer than its limit is refused, one of many blocks is read whole`() throws {
        let folder = try Folder()
        let path = folder.file("long")
        let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0) }
        try FileBytes.write(bytes, to: path)
        #expect(try FileBytes.read(path, limit: 200_000) == bytes)
        let fault = #expect(throws: SystemFault.self) { try FileBytes.read(path, limit: 199_999) }
        #expect(fault?.description == "cannot read \(path): it is longer than 199999 bytes")
    }

    @Test func `faults name the path`() throws {
        let folder = try Folder()
        let missing = folder.file("missing")
        #expect(throws: SystemFault("read \(missing)", errno: ENOENT)) { try FileBytes.read(missing, limit: 10) }
        #expect(throws: SystemFault("look at \(missing)", errno: ENOENT)) { try FileBytes.stamp(missing) }
        #expect(throws: SystemFault("read \(folder.path)", errno: EISDIR)) {
            try FileBytes.read(folder.path, limit: 10)
        }
        #expect(throws: SystemFault("write \(missing)/file", errno: ENOENT)) {
            try FileBytes.write([], to: missing + "/file")
        }
    }

    @Test func `a write that fails leaves nothing behind`() throws {
        let folder = try Folder()
        let path = folder.file("folder")
        try FileBytes.makeDirectory(path)
        #expect(throws: SystemFault.self) { try FileBytes.write([1], to: path) }
        let entries = try #require(opendir(folder.path))
        defer { closedir(entries) }
        var count = 0
        while readdir(entries) != nil { count += 1 }
        #expect(count == 3)
        rmdir(path)
    }

    @Test func `a folder is made with those above it, for its owner alone`() throws {
        let folder = try Folder()
        try FileBytes.makeDirectory(folder.file("a/b"))
        try FileBytes.makeDirectory(folder.file("a/b/"))
        #expect(try FileBytes.stamp(folder.file("a/b")).mode == 0o700)
        rmdir(folder.file("a/b"))
        rmdir(folder.file("a"))
        try FileBytes.write([], to: folder.file("file"))
        #expect(throws: SystemFault("create the folder \(folder.file("file"))/b", errno: ENOTDIR)) {
            try FileBytes.makeDirectory(folder.file("file") + "/b")
        }
    }
}

@Suite struct ServiceManagerTests {
    func messages(_ name: String, _ states: [ServiceState]) throws -> [String] {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(name.utf8)) }
        let isAbstract = name.hasPrefix("@")
        if isAbstract { address.sun_path.0 = 0 }
        let length = socklen_t(2 + name.utf8.count + (isAbstract ? 0 : 1))
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, length) }
        }
        try #require(bound == 0)
        return states.map { state in
            #expect(notifySystemd(state, socket: name))
            var bytes = [UInt8](repeating: 0, count: 200)
            let count = recv(descriptor, &bytes, bytes.count, Int32(MSG_DONTWAIT))
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
    }

    @Test(arguments: [true, false])
    func `systemd receives each state`(_ isAbstract: Bool) throws {
        let folder = try Folder()
        let name = isAbstract ? "@notify-\(getpid())" : folder.file("notify")
        let heard = try messages(
            name, [.ready, .reloading(MonotonicTime(nanoseconds: 5_000_999)), .stopping, .alive, .status("a\nb")])
        #expect(heard == ["READY=1", "RELOADING=1\nMONOTONIC_USEC=5000", "STOPPING=1", "WATCHDOG=1", "STATUS=a b"])
    }

    @Test func `without a service manager nothing happens`() {
        #expect(!notifySystemd(.ready, socket: nil))
        #expect(!notifySystemd(.ready, socket: ""))
        #expect(!notifySystemd(.ready, socket: "relative"))
        #expect(!notifySystemd(.ready, socket: "/nonexistent/socket"))
    }

    @Test func `the limit of open files becomes the hard one`() throws {
        let limit = try #require(DescriptorLimit.raise())
        #expect(limit >= 1024)
        #expect(DescriptorLimit.raise() == limit)
    }
}

@Suite struct ResolverTests {
    @Test func `an address needs no look-up`() throws {
        #expect(try Resolver.resolve(host: "10.0.0.1", port: 5) == [SocketAddress(parsing: "10.0.0.1:5")!])
        #expect(try Resolver.resolve(host: "::1", port: 5) == [SocketAddress(parsing: "[::1]:5")!])
        #expect(try Resolver.resolve(host: "[::1]", port: 5) == [SocketAddress(parsing: "[::1]:5")!])
    }

    @Test func `localhost is this machine`() throws {
        let found = try Resolver.resolve(host: "localhost", port: 80)
        #expect(!found.isEmpty && found.allSatisfy { $0.ip?.isLoopback == true && $0.port == 80 })
    }

    @Test func `an unknown name is a sentence`() {
        let fault = #expect(throws: SystemFault.self) { try Resolver.resolve(host: "no-such-host.invalid", port: 1) }
        #expect(fault?.description.hasPrefix("cannot find the address of no-such-host.invalid: ") == true)
    }
}

@Suite struct SignalsTests {
    @Test func `a signal taken as an event waits for its thread to ask`() throws {
        let seen = Mutex<[ProcessSignal?]>([])
        // On a thread of its own: signals are taken from the calling thread and those it starts.
        let thread = try WorkerThread(name: "signals") {
            guard (try? Signals.block([.user1, .user2])) != nil else { return }
            pthread_kill(pthread_self(), SIGUSR2)
            let signals = (0..<2).map { _ in Signals.next([.user1, .user2], milliseconds: 0) }
            pthread_kill(pthread_self(), SIGUSR1)
            seen.withLock { $0 = signals + [Signals.next([.user1, .user2])] }
        }
        thread.join()
        #expect(seen.withLock { $0 } == [.user2, nil, .user1])
    }

    @Test(arguments: [SIGPIPE, SIGXFSZ]) func `a write that fails ends no process`(_ number: Int32) throws {
        try Signals.block([])
        // Its default would end the tests.
        #expect(kill(getpid(), number) == 0)
    }
}
