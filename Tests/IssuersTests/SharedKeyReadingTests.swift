import Credentials
import Synchronization
import Testing
import Threads
import Transport
import Wire

@testable import Issuers

/// When the signing keys that gateways share are read.
@Suite struct SharedKeyReadingTests {
    /// A database that answers when it is told to, and what came of it.
    private final class Scene: Sendable {
        struct State {
            var waiting: [CheckedContinuation<SigningKeyRing?, any Error>] = []
            var begun = 0
            var adopted: [String?] = []
            var times: [MonotonicTime] = []
            var problems: [String] = []
            var pauses: [UInt64] = []
        }

        let state = Mutex(State())

        func readings() -> SharedKeyReadings {
            SharedKeyReadings(
                read: {
                    try await withCheckedThrowingContinuation { reading in
                        self.state.withLock { state in
                            state.begun += 1
                            state.waiting.append(reading)
                        }
                    }
                },
                adopt: { ring, time, then in
                    self.state.withLock { state in
                        state.adopted.append(ring.active.kid)
                        state.times.append(time)
                    }
                    then()
                }, failed: { problem in self.state.withLock { $0.problems.append(problem) } },
                wait: { milliseconds in self.state.withLock { $0.pauses.append(milliseconds) } })
        }

        /// Waits for the next reading, and answers it.
        func answer(_ result: Result<SigningKeyRing?, any Error>) async {
            for _ in 0..<12_000 {
                let next = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
                if let next { return next.resume(with: result) }
                await pause(milliseconds: 5)
            }
            Issue.record("no reading")
        }

        func adopted(_ count: Int) async -> [String?] {
            for _ in 0..<12_000 where state.withLock({ $0.adopted.count }) < count { await pause(milliseconds: 5) }
            return state.withLock { $0.adopted }
        }
    }

    private struct Away: Error, CustomStringConvertible { let description: String }

    private func ring() throws -> SigningKeyRing { try SigningKeyRing.generate(.ES256, now: EventLoop.now().wall) }

    /// The notice of a change does not come again.
    @Test func aReadingThatFailsIsRepeatedUntilOneSucceeds() async throws {
        let (scene, ring) = (Scene(), try ring())
        let readings = scene.readings()
        readings.changed()
        for reason in ["away", "away", "late"] { await scene.answer(.failure(Away(description: reason))) }
        await scene.answer(.success(ring))
        #expect(await scene.adopted(1) == [ring.active.kid])
        #expect(scene.state.withLock { $0.problems } == ["away", "late"] && scene.state.withLock { $0.pauses } == [1_000, 1_000, 1_000])
    }

    /// Tokens with an unknown key have the keys read: those that come during a reading wait for the next one, together.
    @Test func aReadingIsAwaitedByAllThatAskedBeforeIt() async throws {
        let (scene, ring) = (Scene(), try ring())
        let readings = scene.readings()
        let done = Mutex<[Int]>([])
        readings.read { done.withLock { $0.append(0) } }
        for _ in 0..<12_000 where scene.state.withLock({ $0.begun }) < 1 { await pause(milliseconds: 5) }
        for number in 1...2 { readings.read { done.withLock { $0.append(number) } } }
        #expect(done.withLock { $0 } == [])
        await scene.answer(.success(ring))
        for _ in 0..<12_000 where scene.state.withLock({ $0.begun }) < 2 { await pause(milliseconds: 5) }
        #expect(done.withLock { $0 } == [0])
        await scene.answer(.failure(Away(description: "away")))
        for _ in 0..<12_000 where done.withLock({ $0.count }) < 3 { await pause(milliseconds: 5) }
        #expect(done.withLock { $0 } == [0, 1, 2])
        await scene.answer(.success(nil))
    }

    /// A reading may have begun before the latest change was committed.
    @Test func aChangeDuringAReadingIsReadAfterIt() async throws {
        let (scene, old, new) = (Scene(), try ring(), try ring())
        let readings = scene.readings()
        readings.changed()
        for _ in 0..<12_000 where scene.state.withLock({ $0.begun }) < 1 { await pause(milliseconds: 5) }
        for _ in 0..<3 { readings.changed() }
        #expect(scene.state.withLock { $0.begun } == 1, "one at a time")
        await scene.answer(.success(old))
        await scene.answer(.success(new))
        #expect(await scene.adopted(2) == [old.active.kid, new.active.kid])
        let times = scene.state.withLock { $0.times }
        #expect(times[0] <= times[1])
        // And the next one after a pause begins anew.
        readings.changed()
        await scene.answer(.success(nil))
        readings.changed()
        await scene.answer(.success(new))
        #expect(await scene.adopted(3) == [old.active.kid, new.active.kid, new.active.kid])
        #expect(scene.state.withLock { $0.begun } == 4)
    }
}
