import Credentials
import Fetch
import Gate
import Testing
import Wire

@testable import Issuers

@Suite struct RefreshFlightTests {
    private static let tokens = TokenRefreshOutcome.refreshed(RefreshedTokens(access: [1], refresh: [2]))

    private static func order(_ token: String = "r1", session: String = "s") -> RefreshOrder {
        RefreshOrder(issuer: "i", isOwn: false, user: "u", session: session, token: Array(token.utf8))
    }

    private static func time(_ milliseconds: UInt64) -> MonotonicTime {
        MonotonicTime(nanoseconds: 1_000_000_000_000).advanced(milliseconds: milliseconds)
    }

    @Test func oneLeadsAndTheOthersWait() {
        var flights = RefreshFlights<Int>()
        let boarded = (1...3).map { flights.join(Self.order(), $0, now: Self.time(0)) }
        #expect(boarded == [.leader, .follower, .follower])
        let waiters = flights.ended(Self.order(), Self.tokens, now: Self.time(10))
        #expect(waiters == [2, 3])
    }

    /// A token that is sent twice looks stolen to its issuer, which then ends the session.
    @Test func aLeaseOutlastsTheLongestRefresh() {
        let longest = Int(ExternalRefresher.queuedMilliseconds) + ExternalRefresher.totalMilliseconds
        #expect(RefreshLease.heldMilliseconds >= longest + 1_000)
    }

    @Test func otherTokensAndSessionsAreSeparateFlights() {
        var flights = RefreshFlights<Int>()
        let orders = [Self.order(), Self.order("r2"), Self.order(session: "t")]
        let boarded = orders.map { flights.join($0, 0, now: Self.time(0)) }
        #expect(boarded == [.leader, .leader, .leader])
        _ = flights.ended(orders[0], Self.tokens, now: Self.time(0))
        let other = flights.join(orders[1], 0, now: Self.time(1))
        #expect(other == .follower)
    }

    /// An outcome, and how long it is cached, in milliseconds.
    static let lives: [(TokenRefreshOutcome, UInt64)] = [
        (tokens, 10_000), (.refused, 1_000), (.unavailable(retryAfterSeconds: 1), 1_000),
    ]

    @Test(arguments: lives) func anOutcomeIsKnownForAWhile(_ outcome: TokenRefreshOutcome, _ life: UInt64) {
        var flights = RefreshFlights<Int>()
        _ = flights.join(Self.order(), 0, now: Self.time(0))
        _ = flights.ended(Self.order(), outcome, now: Self.time(0))
        let within = flights.join(Self.order(), 0, now: Self.time(life - 1))
        let beyond = flights.join(Self.order(), 0, now: Self.time(life))
        #expect(within == .cached(outcome) && beyond == .leader)
    }

    @Test func oneAddressLeavesFlightsToOthers() throws {
        var flights = RefreshFlights<Int>()
        let (one, two) = (IPAddress(parsing: "192.0.2.1"), IPAddress(parsing: "192.0.2.2"))
        let boarded = (0..<1_024).map { flights.join(Self.order("r\($0)"), 0, from: one, now: Self.time(0)) }
        // Four fifths, as it may hold four times what is free.
        #expect(boarded.count { $0 == .leader } == 820)
        let other = flights.join(Self.order("other"), 0, from: two, now: Self.time(0))
        #expect(other == .leader)
        for number in 0..<820 { _ = flights.ended(Self.order("r\(number)"), .refused, now: Self.time(0)) }
        let again = flights.join(Self.order("again"), 0, from: one, now: Self.time(0))
        #expect(again == .leader)
    }

    @Test func anIssuerThatAsksForAPauseGetsIt() {
        var pauses = IssuerPauses()
        let (one, other) = (IPAddress(v4: 1), IPAddress(v4: 2))
        let cases: [(status: Int, retryAfter: String?, left: UInt32?)] = [
            (429, "7", 7), (429, nil, nil), (429, "0", nil), (429, "-5", nil), (429, "99999", 30),
            (429, "Wed, 21 Oct 2026 07:28:00 GMT", nil),
            (503, "3", 3), (503, nil, nil), (500, "3", nil), (200, "3", nil), (401, "3", nil),
        ]
        let found = cases.enumerated().map { number, entry in
            pauses.note(entry.status, entry.retryAfter, of: "i\(number)", from: one, at: Self.time(0))
            return pauses.left(of: "i\(number)", from: one, at: Self.time(0))
        }
        #expect(found == cases.map(\.left))
        let (late, over) = (pauses.left(of: "i0", from: one, at: Self.time(6_001)), pauses.left(of: "i0", from: one, at: Self.time(7_000)))
        #expect(late == 1 && over == nil)
        // A 503 is for all, a 429 for the client that got it.
        #expect(pauses.left(of: "i0", from: other, at: Self.time(0)) == nil && pauses.left(of: "i6", from: other, at: Self.time(0)) == 3)
    }

    @Test func thereAreNoMoreFlightsThanMayBe() {
        var flights = RefreshFlights<Int>()
        let boarded = (0..<1_025).map { flights.join(Self.order("r\($0)"), 0, now: Self.time(0)) }
        #expect(boarded.count { $0 == .leader } == 1_024 && boarded.last == .full)
        let waits = flights.join(Self.order("r0"), 0, now: Self.time(0))
        #expect(waits == .follower)
    }

    @Test func outcomesAreForgottenBeforeTheyAreTooMany() {
        var flights = RefreshFlights<Int>()
        for number in 0..<20_000 {
            _ = flights.join(Self.order("r\(number)"), 0, now: Self.time(UInt64(number)))
            _ = flights.ended(Self.order("r\(number)"), .refused, now: Self.time(UInt64(number)))
        }
        let latest = flights.join(Self.order("r19999"), 0, now: Self.time(20_000))
        #expect(latest == .cached(.refused))
    }
}
