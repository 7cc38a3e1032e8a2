import Glibc
import Synchronization
import System
import Testing
import Threads
import Transport
import Wire

@Suite struct EventLoopTests {
    @Test func `a watched socket is reported with its token for as long as it is ready`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        var loop = try EventLoop()
        try loop.add(server, token: 42, .read)
        #expect(loop.wait(milliseconds: 0) == 0)
        try write([1], to: client)
        for _ in 0..<2 {
            #expect(loop.wait(milliseconds: 30_000) == 1)
            let ready = loop.ready(0)
            #expect(ready.token == 42)
            #expect(ready.readable && !ready.writable && !ready.hangup && !ready.error)
        }
        _ = try read(server, 1)
        #expect(loop.wait(milliseconds: 0) == 0)
    }

    @Test func `interest can change and pause`() throws {
        let (client, server) = try pair()
        defer {
            client.close()
            server.close()
        }
        var loop = try EventLoop()
        try loop.add(server, token: 1, .read)
        try loop.modify(server, token: 2, [.read, .write])
        #expect(loop.wait(milliseconds: 30_000) == 1)
        #expect(loop.ready(0).token == 2)
        #expect(loop.ready(0).writable)
        try write([1], to: client)
        try loop.modify(server, token: 2, [])
        #expect(loop.wait(milliseconds: 0) == 0)
        try loop.modify(server, token: 2, .read)
        #expect(loop.wait(milliseconds: 30_000) == 1)
    }

    @Test func `a reset is reported whatever the interest`() throws {
        let (client, server) = try pair()
        defer { server.close() }
        var loop = try EventLoop()
        try loop.add(server, token: 1, [])
        client.abort()
        #expect(loop.wait(milliseconds: 30_000) == 1)
        #expect(loop.ready(0).hangup && loop.ready(0).error)
    }

    @Test func `a wake-up from another thread ends the wait`() throws {
        var loop = try EventLoop()
        let waker = loop.waker
        let thread = try WorkerThread(name: "waker") { waker.wake() }
        #expect(loop.wait(milliseconds: 30_000) == 1)
        #expect(loop.ready(0).token == EventLoop.wakeToken)
        thread.join()
        waker.clear()
        #expect(loop.wait(milliseconds: 0) == 0)
    }

    @Test func `both clocks go forward together`() {
        let first = EventLoop.now()
        let second = EventLoop.now()
        #expect(first.monotonic <= second.monotonic)
        #expect(first.wall.seconds > 1_700_000_000)
    }
}

@Suite struct MailboxTests {
    @Test func `messages come out in the order in which they were posted`() throws {
        let mailbox = Mailbox<Int>(waker: try Waker())
        #expect(mailbox.take() == [])
        for number in 0..<100 { mailbox.post(number) }
        #expect(mailbox.take() == Array(0..<100))
        #expect(mailbox.take() == [])
    }

    @Test func `no message of many threads is lost, and each thread's stay in order`() throws {
        var loop = try EventLoop()
        let mailbox = Mailbox<(thread: Int, number: Int)>(waker: loop.waker)
        let threads = try (0..<4).map { thread in
            try WorkerThread(name: "poster") { (0..<5000).forEach { mailbox.post((thread, $0)) } }
        }
        var next = [Int](repeating: 0, count: 4)
        var turns = 0
        while next.reduce(0, +) < 20_000 {
            // Posting wakes whenever the box was empty, so no wait is for nothing.
            try #require(loop.wait(milliseconds: 30_000) == 1)
            for message in mailbox.take() {
                #expect(message.number == next[message.thread])
                next[message.thread] += 1
            }
            turns += 1
        }
        threads.forEach { $0.join() }
        #expect(next == [5000, 5000, 5000, 5000])
    }

    @Test func `a mailbox that outlives its loop still takes messages`() throws {
        let mailbox = try { Mailbox<Int>(waker: try EventLoop().waker) }()
        mailbox.post(1)
        #expect(mailbox.take() == [1])
    }
}

@Suite struct WorkerThreadTests {
    @Test func `a thread runs its closure under its name, and join waits for it`() throws {
        let seen = Mutex("")
        let thread = try WorkerThread(name: "a-name-that-is-too-long", cpu: 0) {
            let name = try? FileBytes.read("/proc/thread-self/comm", limit: 100)
            seen.withLock { $0 = String(decoding: name ?? [], as: UTF8.self) }
        }
        thread.join()
        thread.join()
        #expect(seen.withLock { $0 } == "a-name-that-is-\n")
    }
}
