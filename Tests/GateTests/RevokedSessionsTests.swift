import Testing

@testable import Gate

/// The list of ended sessions, which all workers of a process share.
@Suite struct RevokedSessionsTests {
    /// Each worker is told of each end, and the list has it once.
    @Test func anEndedSessionIsKeptOnceForAllWorkers() {
        let list = RevocationList()
        var workers = (0..<4).map { _ in RevokedSessions(list) }
        let keys = (0..<10_000).map { LimitKey(high: UInt64($0), low: UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
        for worker in workers.indices {
            for key in keys { workers[worker].insert(key, until: 5_000, endedAt: 100, at: 100) }
            #expect(keys.allSatisfy { workers[worker].contains($0) && workers[worker].endedAt($0) == 100 })
        }
        #expect(workers.allSatisfy { $0.count == 10_000 })
        #expect(!workers[0].contains(LimitKey(high: 10_000, low: 1)))
    }

    /// A worker looks sessions up while others add to the list, which grows meanwhile: what it was told of stays refused, and no other
    /// session is.
    @Test func lookUpsAreRightWhileOthersAdd() async {
        let list = RevocationList()
        let keys = (0..<20_000).map { LimitKey(high: UInt64($0), low: UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
        let wrong = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<4 {
                group.addTask {
                    var (revoked, wrong) = (RevokedSessions(list), 0)
                    for (number, key) in keys.enumerated() {
                        revoked.insert(key, until: 5_000, endedAt: Int64(number + 1), at: 0)
                        let earlier = (number &* 7_919 + worker) % (number + 1)
                        if revoked.endedAt(keys[earlier]) != Int64(earlier + 1) { wrong += 1 }
                        if revoked.contains(LimitKey(high: key.high &+ 1 << 40, low: key.low)) { wrong += 1 }
                    }
                    return wrong
                }
            }
            return await group.reduce(0, +)
        }
        #expect(wrong == 0 && list.count == keys.count)
    }

    /// The look-up of a session that has not ended comes to the very entry that another worker fills next.
    @Test func noLookUpTakesTheEntryOfAnotherSession() async {
        let lists = (0..<1_000).map { _ in RevocationList() }
        let (other, keys) = (LimitKey(high: .max, low: 1), (0..<32).map { LimitKey(high: $0, low: 1) })
        let reading = Task {
            var wrong = 0
            for reader in lists.map({ RevokedSessions($0) }) {
                // Bounded, for the writer may have no thread until this ends.
                for _ in 0..<10_000 {
                    if reader.contains(keys[31]) { break }
                    if reader.contains(other) { wrong += 1 }
                }
            }
            return wrong
        }
        for list in lists {
            var writer = RevokedSessions(list)
            for key in keys { writer.insert(key, until: 5_000, at: 100) }
        }
        #expect(await reading.value == 0)
    }

    @Test func aRevokedSessionIsKeptUntilItsLastTokenExpires() {
        var revoked = RevokedSessions()
        let keys = (0..<10_000).map { LimitKey(high: UInt64($0), low: UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
        for (index, key) in keys.enumerated() { revoked.insert(key, until: index % 2 == 0 ? 50 : 5_000, at: 0) }
        #expect(keys.allSatisfy { revoked.contains($0) })
        revoked.insert(keys[0], until: 10, at: 0)
        // Only expired entries are removed, when the table is full.
        for index in 10_000..<30_000 {
            revoked.insert(LimitKey(high: 1, low: UInt64(index) &* 0x9E37_79B9_7F4A_7C15), until: 5_000, at: 100)
        }
        #expect(revoked.count == 25_000)
        #expect(keys.enumerated().allSatisfy { revoked.contains($1) == ($0 % 2 == 1) })
        revoked.insert(keys[0], until: 100, at: 100)
        #expect(!revoked.contains(keys[0]))
    }

    /// The worker's clock is forty days ahead, until it is put right.
    @Test func aClockThatIsAheadForgetsNoRevokedSession() {
        let (now, day): (Int64, Int64) = (1_700_000_000, 86_400)
        var revoked = RevokedSessions()
        let keys = (0..<20_000).map { LimitKey(high: UInt64($0), low: UInt64($0) &* 0x9E37_79B9_7F4A_7C15) }
        for (index, key) in keys.enumerated() {
            let endedAt = now + Int64(index / 1_000)
            revoked.insert(key, until: endedAt + 7 * day, endedAt: endedAt, at: now + 40 * day)
        }
        #expect(keys.allSatisfy { revoked.contains($0) })
        // Ends that are known to be followed by others a week later are over by every clock.
        let later = now + 8 * day
        revoked.insert(LimitKey(high: 9, low: 9), until: later + 7 * day, endedAt: later, at: now + 40 * day)
        for index in 20_000..<70_000 {
            let key = LimitKey(high: 1, low: UInt64(index) &* 0x9E37_79B9_7F4A_7C15)
            revoked.insert(key, until: later + 7 * day, endedAt: later, at: now + 40 * day)
        }
        #expect(revoked.count == 50_001)
    }
}
