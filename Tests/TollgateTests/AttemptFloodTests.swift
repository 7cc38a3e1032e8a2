import Accounts
import Gate
@testable import Limits
import Testing
import Wire

@testable import tollgate

/// Attempts at accounts while routes count more than there is room for.
@Suite struct AttemptFloodTests {
    /// It stands still: an address has room for another guess two seconds later.
    private static let now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    private let limiter = SharedLimiter(capacity: 64, hash: KeyedHash(first: 1, second: 2))
    private let attempts: AttemptCounts
    private let guessed = AttemptBucket(.accountFailures, "ada@example.org")

    init() async {
        attempts = AttemptCounts(Self.rates, table: limiter, clock: { Self.now })
        for _ in 0..<Self.rates[guessed.kind].burst { _ = await attempts.charge([guessed]) }
    }

    private static let rates = AttemptRates(
        openings: AttemptRate(count: 300, windowSeconds: 3_600, burst: 100),
        sms: AttemptRate(count: 1_000, windowSeconds: 3_600, burst: 1_000))

    private func isAdmitted(_ bucket: AttemptBucket) async -> Bool {
        switch await attempts.charge([bucket]) {
        case .admitted: true
        case .refused: false
        }
    }

    private func flood(_ kind: SubjectKind, _ rate: String) throws {
        let rate = try #require(LimitRate(parsing: rate))
        for number in 0..<1_280 as Range<UInt64> {
            let key = withUnsafeBytes(of: number) { limiter.hash.hash128(Array($0).rawBytes, domain: 4) }
            let item = LimitCharge.Item(key: key, rate: rate, subject: kind)
            #expect(limiter.take(item, now: Self.now, want: 1).granted == 1)
        }
    }

    @Test(arguments: [SubjectKind.header, .address, .user, .session])
    func routeLimitsDoNotAffectSignIn(_ kind: SubjectKind) async throws {
        for rate in ["100/d", "60/h", "20/m"] { try flood(kind, rate) }
        for kind in AttemptBucket.Kind.allCases {
            for number in 0..<20 { #expect(await isAdmitted(AttemptBucket(kind, "person \(number)")), "\(kind)") }
        }
        #expect(await !isAdmitted(guessed))
    }

    /// Invented account names give an address no further guesses.
    @Test func inventedNamesEvictNoAddress() async throws {
        let address = AttemptBucket(.addressFailures, "192.0.2.1")
        for _ in 0..<Self.rates[address.kind].burst { #expect(await isAdmitted(address)) }
        for number in 0..<640 {
            _ = await attempts.charge([AttemptBucket(.accountFailures, "nobody-\(number)@example.org")])
            _ = await attempts.charge([AttemptBucket(.recipientMessages, "nobody-\(number)@example.org")])
            _ = await attempts.charge([AttemptBucket(.familiarFailures, "192.0.2.7 nobody-\(number)@example.org")])
        }
        #expect(await !isAdmitted(address))
    }

    /// One address drives no used proof out of the table, and is refused before it has; others are not.
    @Test func proofsOfOneAddressEvictNone() async {
        let limiter = SharedLimiter(capacity: 65_536, hash: KeyedHash(first: 1, second: 2))
        let attempts = AttemptCounts(Self.rates, table: limiter, clock: { Self.now })
        func full(_ proof: Int, from address: Int) async -> [AttemptBucket.Kind] {
            let use = [AttemptBucket(.deviceProofs, "\(proof)"), AttemptBucket(.addressUsedProofs, "192.0.2.\(address)")]
            return if case .refused(let full) = await attempts.spend(use, onlyShared: false) { full.map(\.kind) } else { [] }
        }
        #expect(await full(0, from: 1) == [])
        let share = Int(Self.rates[.addressUsedProofs].burst)
        for number in 1...100_000 { #expect(await full(number, from: 2) == (number <= share ? [] : [.addressUsedProofs])) }
        #expect(limiter.evictions == 0)
        #expect(await full(0, from: 3) == [.deviceProofs])
        #expect(await full(-1, from: 3) == [])
    }

    /// Anyone may sign in with proofs of keys made for it. A proof that a route has seen is still known then.
    @Test func proofsAtSignInsEvictNoneOfRoutes() async throws {
        let rate = try #require(LimitRate(parsing: "20/h+burst=1"))
        let used = LimitCharge.Item(key: LimitKey(high: 1, low: 2), rate: rate, subject: .proof)
        #expect(limiter.take(used, now: MonotonicTime(nanoseconds: 999_000_000_000), want: 1).granted == 1)
        for number in 0..<640 { _ = await attempts.charge([AttemptBucket(.deviceProofs, "\(number)")]) }
        #expect(limiter.evictions > 0)
        #expect(limiter.take(used, now: Self.now, want: 1).granted == 0)
    }
}
