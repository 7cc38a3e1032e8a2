import Accounts
import Synchronization
import Testing
import Wire

@testable import tollgate

/// The live switches of a gateway, whose followers get those of their kind alone.
@Suite struct SwitchBoardTests {
    @Test func eachFollowerGetsTheSwitchesOfItsKind() {
        let board = SwitchBoard()
        let seen = Mutex<[String]>([])
        board.follow("split") { switches, isAnew in
            seen.withLock { $0.append(switches.map { "\($0.subject)=\($0.value)" }.joined(separator: " ") + (isAnew ? " anew" : "")) }
        }
        board.read(
            [LiveSwitch(name: "split/feed", value: "10", version: 1), LiveSwitch(name: "splits/x", value: "1", version: 2)], isAnew: true)
        #expect(board.setOwn("split/a/b", to: "5", until: nil, after: 0))
        #expect(!board.setOwn("split/a/b", to: "6", until: nil, after: 0), "it is set")
        #expect(board.setOwn("split/feed", to: nil, until: nil, after: 1))
        #expect(seen.withLock { $0 } == ["feed=10 anew", "feed=10 a/b=5", "a/b=5"])
    }

    @Test func aSwitchThatHasEndedIsNotCurrent() {
        let board = SwitchBoard()
        #expect(board.setOwn("maintenance/all", to: "on", until: WallTime(microseconds: 5), after: nil))
        #expect(board.current("maintenance/all", at: WallTime(microseconds: 4))?.value == "on")
        #expect(board.current("maintenance/all", at: WallTime(microseconds: 5)) == nil)
        #expect(board.current("maintenance/feed", at: WallTime(microseconds: 4)) == nil)
    }
}
