import Glibc
import Synchronization
import Testing
import Threads
import Wire

@testable import Accounts
@testable import Threads

/// A queue in which keys take turns.
@Suite struct FairQueueTests {
    /// The elements that were evicted or refused.
    private func add(_ queue: inout FairQueue<String, Int>, _ number: Int, _ key: String) -> String {
        switch queue.add(number, for: key) {
        case .added: ""
        case .addedEvicting(let evicted): "evicted \(evicted)"
        case .refused: "refused"
        }
    }

    private func drain(_ queue: inout FairQueue<String, Int>) -> [Int] {
        var all: [Int] = []
        while let next = queue.next() { all.append(next) }
        return all
    }

    @Test func oneKeyIsServedInTheOrderOfItsComing() {
        var queue = FairQueue<String, Int>(capacity: 100)
        for number in 0..<100 { #expect(add(&queue, number, "a") == "") }
        #expect(add(&queue, 100, "a") == "refused")
        #expect(drain(&queue) == Array(0..<100))
        #expect(queue.count == 0 && queue.next() == nil)
    }

    @Test func keysTakeTurns() {
        var queue = FairQueue<String, Int>(capacity: 100)
        for number in [10, 11, 12, 13] { _ = add(&queue, number, "a") }
        for number in [20, 21] { _ = add(&queue, number, "b") }
        _ = add(&queue, 30, "c")
        #expect(drain(&queue) == [10, 20, 30, 11, 21, 12, 13])
    }

    @Test func aLateKeyWaitsForOneElementOfEachOther() {
        var queue = FairQueue<String, Int>(capacity: 1_000)
        for number in 0..<900 { _ = add(&queue, number, "flood") }
        #expect(queue.next() == 0)
        _ = add(&queue, 2_000, "late")
        #expect(queue.next() == 1)
        #expect(queue.next() == 2_000)
    }

    @Test func aFullQueueEvictsFromTheKeyWithMost() {
        var queue = FairQueue<String, Int>(capacity: 4)
        for number in 0..<4 { _ = add(&queue, number, "flood") }
        #expect(add(&queue, 4, "flood") == "refused")
        #expect(add(&queue, 10, "other") == "evicted 3")
        #expect(add(&queue, 11, "other") == "evicted 2")
        // Both hold two by now: neither evicts the other.
        #expect(add(&queue, 12, "other") == "refused")
        #expect(add(&queue, 5, "flood") == "refused")
        #expect(["evicted 1", "evicted 11"].contains(add(&queue, 20, "third")))
        #expect(add(&queue, 21, "third") == "refused")
        #expect(queue.count == 4)
    }

    @Test(arguments: 1...6 as ClosedRange<UInt64>)
    func everyElementComesOutOnceWhateverHappens(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var queue = FairQueue<UInt64, Int>(capacity: 50)
        var waiting: [UInt64: [Int]] = [:]
        var evicted = 0
        for number in 0..<20_000 {
            if random.next() % 5 < 3 {
                let key = random.next() % 2 == 0 ? 0 : random.next() % 40
                switch queue.add(number, for: key) {
                case .added: waiting[key, default: []].append(number)
                case .addedEvicting(let other):
                    evicted += 1
                    let loser = waiting.first { $0.value.last == other }?.key
                    let most = waiting.values.map(\.count).max()
                    #expect(loser.map { waiting[$0]?.count } == most, "the newest of who holds most")
                    if let loser { waiting[loser]?.removeLast() }
                    waiting[key, default: []].append(number)
                case .refused:
                    let held = waiting[key]?.count ?? 0
                    #expect(queue.count == 50 && waiting.values.allSatisfy { $0.count <= held + 1 })
                }
            } else if let next = queue.next() {
                let key = waiting.first { $0.value.first == next }?.key
                #expect(key != nil, "the oldest of its key")
                if let key { waiting[key]?.removeFirst() }
            } else {
                #expect(waiting.values.allSatisfy { $0.isEmpty })
            }
            #expect(queue.count == waiting.values.map(\.count).reduce(0, +))
        }
        #expect(evicted > 100)
    }
}

/// The queue of passwords, under a flood from one address.
@Suite struct FairPasswordTests {
    /// Blocks the only thread of a pool until released.
    private final class Gate: Sendable {
        private let isOpen = Atomic(false)
        private let hasBegun = Atomic(false)

        func hold() {
            hasBegun.store(true, ordering: .sequentiallyConsistent)
            while !isOpen.load(ordering: .sequentiallyConsistent) { sched_yield() }
        }

        func open() { isOpen.store(true, ordering: .sequentiallyConsistent) }
        var isHeld: Bool { hasBegun.load(ordering: .sequentiallyConsistent) }
    }

    /// The events in order.
    private final class Record: Sendable {
        private let words = Mutex<[String]>([])

        func add(_ word: String) { words.withLock { $0.append(word) } }
        var all: [String] { words.withLock { $0 } }
    }

    @Test func aFloodFromOneAddressDelaysOthersByOneTurn() async throws {
        let made = BlockingPool<Void>(name: "test", threads: 1, capacity: 8, start: WorkerThread.start, make: {})
        let pool = try #require(made)
        let (flood, other) = (IPAddress(v4: 0x0A00_0001), IPAddress(v4: 0x0A00_0002))
        let (gate, served, refused) = (Gate(), Record(), Record())
        @Sendable func run(_ address: IPAddress, _ word: String) async {
            do throws(BlockingPool<Void>.Fault) {
                try await pool.run(for: address) { _ in served.add(word) }
            } catch {
                refused.add(word)
            }
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { _ = try? await pool.run(for: flood) { _ in gate.hold() } }
            while !gate.isHeld { await Task.yield() }
            for _ in 0..<50 { group.addTask { await run(flood, "flood") } }
            // Eight wait behind the one that is held: the others are refused at once.
            while refused.all.count < 42 { await Task.yield() }
            group.addTask { await run(other, "other") }
            // One of the flood makes room.
            while refused.all.count < 43 { await Task.yield() }
            gate.open()
        }
        #expect(refused.all == Array(repeating: "flood", count: 43))
        #expect(served.all.count == 8 && served.all.prefix(2).contains("other"))
        pool.close()
    }

    /// So do its tasks, which are served in their order.
    @Test func tasksOfOneAddressDelayThoseOfOthersByOneTurn() async throws {
        let made = BlockingPool<Void>(name: "test", threads: 1, capacity: 8, start: WorkerThread.start, make: {})
        let pool = try #require(made)
        let (flood, other) = (IPAddress(v4: 0x0A00_0001), IPAddress(v4: 0x0A00_0002))
        let (gate, served) = (Gate(), Record())
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await pool.run { _ in gate.hold() } }
            while !gate.isHeld { await Task.yield() }
            for number in 0..<50 { group.addTask(executorPreference: pool.executor(for: flood)) { served.add("\(number)") } }
            group.addTask(executorPreference: pool.executor(for: other)) { served.add("other") }
            gate.open()
        }
        #expect(served.all == ["0", "other"] + (1..<50).map { "\($0)" })
        pool.close()
    }

    /// As after an outage: 20,000 refreshes wait, the first thousand of them of one address.
    @Test func aStampedeDrainsInTheOrderOfArrivalPerAddress() async throws {
        let made = BlockingPool<Void>(name: "test", threads: 1, capacity: 8, start: WorkerThread.start, make: {})
        let pool = try #require(made)
        let lines = (0..<3).map { pool.executor(for: IPAddress(v4: 0x0A00_0001 + $0)) }
        let (gate, served) = (Gate(), Record())
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await pool.run { _ in gate.hold() } }
            while !gate.isHeld { await Task.yield() }
            for number in 0..<20_000 {
                let address = number < 1_000 ? 0 : number % 3
                group.addTask(executorPreference: lines[address]) { served.add("\(address) \(number)") }
            }
            gate.open()
        }
        let order = served.all.map { $0.split(separator: " ").compactMap { Int($0) } }
        #expect(order.count == 20_000)
        for address in 0..<3 {
            let numbers = order.filter { $0[0] == address }.map { $0[1] }
            #expect(numbers == numbers.sorted())
            #expect(order.prefix(18_000).filter { $0[0] == address }.count == 6_000, "they take turns")
        }
        pool.close()
    }
}
