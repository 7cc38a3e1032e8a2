import Accounts
import Gate
import Synchronization
import Testing
import Wire
import Workbench

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
        #expect(board.setOwn("split/a/b", to: "5", until: nil, after: 0, at: WallTime(seconds: 1)))
        #expect(!board.setOwn("split/a/b", to: "6", until: nil, after: 0, at: WallTime(seconds: 1)), "it is set")
        #expect(board.setOwn("split/feed", to: nil, until: nil, after: 1, at: WallTime(seconds: 1)))
        #expect(seen.withLock { $0 } == ["feed=10 anew", "feed=10 a/b=5", "a/b=5"])
    }

    /// A start while the database is away finds the switches of routes and the sealed certificates as they were, and no lease.
    @Test func aCopyOutlastsARestart() throws {
        let folder = try TemporaryFolder()
        let kept = [
            LiveSwitch(
                name: "maintenance/all", value: #"{"message":"Back at ten."}"#, version: 0, expiresAt: WallTime(seconds: 4_000_000_000)),
            LiveSwitch(name: "split/feed", value: "10", version: 0),
            LiveSwitch(name: AcmeBoard.Subject.certificate("a.test").name, value: "sealed", version: 0),
        ]
        let board = SwitchBoard(), copy = SwitchCopy(dataDirectory: folder.path)
        copy.follow(board)
        board.read(kept + [LiveSwitch(name: AcmeBoard.Subject.lease.name, value: "g", version: 4)], isAnew: true)
        copy.write()
        let next = SwitchBoard()
        SwitchCopy(dataDirectory: folder.path).follow(next)
        let found = ["maintenance", "split", AcmeBoard.kind].flatMap { next.all($0, at: WallTime(seconds: 1)) }
        #expect(found == kept)
        board.read([], isAnew: false)
        copy.write()
        let last = SwitchBoard()
        SwitchCopy(dataDirectory: folder.path).follow(last)
        #expect(last.all("maintenance", at: WallTime(seconds: 1)).isEmpty)
    }

    /// `explain` without a gateway: while the database is away, the switches are those of the copy that have not ended.
    @Test func aCommandReadsTheCopyWhileTheDatabaseIsAway() throws {
        let folder = try TemporaryFolder()
        let board = SwitchBoard(), copy = SwitchCopy(dataDirectory: folder.path)
        copy.follow(board)
        let closed = LiveSwitch(name: "maintenance/route/r", value: #"{"message":"Later."}"#, version: 1)
        let over = LiveSwitch(name: "maintenance/all", value: "{}", version: 2, expiresAt: WallTime(seconds: 1_700_000_000))
        board.read([closed, over], isAnew: true)
        copy.write()
        let now = Moment(monotonic: moment(0), wall: WallTime(seconds: 1_800_000_000))
        func stored(_ url: String) throws -> (switches: RouteSwitches, problem: String?) {
            let text = "TOLLGATE_DATA_DIR=\(folder.path)\nDATABASE_URL=\(url)\n"
            return RouteSwitches.stored(try #require(load(text + oneRoute).configuration), at: now)
        }
        let away = try stored("postgres://127.0.0.1:1/tollgate")
        #expect(away.switches == RouteSwitches([closed]))
        #expect(away.problem?.hasSuffix("they are those of the copy in the data folder") == true)
        let fresh = try stored("sqlite://\(folder.path)/none.db")
        #expect(fresh.switches == RouteSwitches() && fresh.problem == nil)
    }

    /// A route's own maintenance comes first; one that a later release has written closes its routes all the same.
    @Test func switchesChangeTheRulesOfTheirRoutes() throws {
        var switches = RouteSwitches()
        let end = WallTime(seconds: 9)
        switches.adopt(
            [
                LiveSwitch(name: "maintenance/all", value: #"{"message":"All.","allow":["192.0.2.0/24"]}"#, version: 1, expiresAt: end),
                LiveSwitch(name: "maintenance/route/feed", value: #"{"message":"Feed."}"#, version: 2),
                LiveSwitch(name: "maintenance/contracts", value: #"{"later":1}"#, version: 3),
            ], of: "maintenance")
        switches.adopt([LiveSwitch(name: "split/feed", value: "10", version: 4)], of: "split")
        switches.adopt([LiveSwitch(name: "deprecated/feed", value: "2026-12-01T00:00:00.000Z", version: 5)], of: "deprecated")
        func applied(_ name: String, _ change: (inout RouteRule) -> Void = { _ in }) -> RouteRule {
            var rule = RouteRule(name: name, path: "/", isPrefix: true, target: .upstream(0))
            rule.split = RouteSplit(percent: 5, upstreamName: "next")
            change(&rule)
            return switches.applied(to: rule)
        }
        let far = WallTime(seconds: 4_000_000_000)
        let feed = applied("feed") { $0.sunset = far }, other = applied("all")
        #expect(feed.maintenance.map(\.message) == ["Feed.", "All."] && other.maintenance.map(\.message) == ["All."])
        #expect(other.maintenance[0].until == end && other.maintenance[0].allowed.map(\.text) == ["192.0.2.0/24"])
        #expect(switches.ofContracts == [Maintenance()] && feed.split?.percent == 10 && other.split?.percent == 5)
        #expect(feed.deprecated == ISO8601.parse("2026-12-01T00:00:00Z") && applied("feed").deprecated == nil)
        #expect(applied("feed") { ($0.sunset, $0.deprecated) = (far, end) }.deprecated == end)
        #expect(applied("feed") { $0.sunset = end }.deprecated == end, "no later than the sunset")
    }

    /// The next time at which the machine's clock shows it; the tests' is UTC.
    @Test func theEndOfAMaintenanceIsReadAsOperatorsWriteIt() throws {
        let now = try #require(ISO8601.parse("2026-11-27T21:30:00.5Z"))
        for (text, expected) in [
            ("22:00", "2026-11-27T22:00:00.000Z"), ("21:31", "2026-11-27T21:31:00.000Z"), ("21:30", "2026-11-28T21:30:00.000Z"),
            ("00:00", "2026-11-28T00:00:00.000Z"), ("2026-11-27T22:00:00Z", "2026-11-27T22:00:00.000Z"),
        ] {
            #expect(try ISO8601.text(MaintenanceEnd.read(text, at: now)) == expected)
        }
        for text in ["24:00", "22:60", "9:00", "22", "22:00:00", "ten", "", "-1:00", "2026-11-27T21:30:00Z", "tomorrow", "２２:00"] {
            #expect(throws: UsageFault.self, "\(text)") { try MaintenanceEnd.read(text, at: now) }
        }
    }

    @Test func aSwitchThatHasEndedIsNotCurrent() {
        let board = SwitchBoard()
        #expect(board.setOwn("maintenance/all", to: "on", until: WallTime(microseconds: 5), after: nil, at: WallTime(seconds: 1)))
        #expect(board.current("maintenance/all", at: WallTime(microseconds: 4))?.value == "on")
        #expect(board.current("maintenance/all", at: WallTime(microseconds: 5)) == nil)
        #expect(board.current("maintenance/feed", at: WallTime(microseconds: 4)) == nil)
    }
}
