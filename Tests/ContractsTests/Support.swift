import Accounts
import Credentials
import Foundation
import Gate
@testable import Limits
import Stories
import Synchronization
import Threads
import Wire

/// A clock that moves only when a story waits.
final class StillClock: Sendable {
    private let microseconds = Mutex<Int64>(1_767_700_800_000_000)

    var now: Moment {
        let microseconds = microseconds.withLock { $0 }
        return Moment(
            monotonic: MonotonicTime(nanoseconds: UInt64(microseconds) * 1_000), wall: WallTime(microseconds: microseconds))
    }

    func advance(seconds: Int64) { microseconds.withLock { $0 += seconds * 1_000_000 } }

    /// Pauses of services do not move it, so the times in a story stay exact.
    var accountClock: AccountClock {
        let paused = Paused()
        return AccountClock(
            now: { [self] in
                let now = now
                return Moment(monotonic: now.monotonic.advanced(milliseconds: paused.milliseconds.withLock { $0 }), wall: now.wall)
            }, pause: { pause in paused.milliseconds.withLock { $0 += pause } })
    }

    private final class Paused: Sendable { let milliseconds = Mutex<UInt64>(0) }
}

/// Records messages.
final class Post: NoticeCourier {
    private let messages = Mutex<[Message]>([])

    func send(_ message: Message, for address: IPAddress?) { messages.withLock { $0.append(message) } }

    /// None is settled: they would be due again.
    let settledNotices: Set<Wire.UUID> = []
    func forget(_ settled: Set<Wire.UUID>) {}

    /// The newest to a recipient; older ones are dropped with it.
    func take(to recipient: String) -> Message.Content? {
        messages.withLock { messages in
            let content = messages.last { $0.recipient.key == recipient }?.content
            messages.removeAll { $0.recipient.key == recipient }
            return content
        }
    }
}

/// Counts attempts by the algorithm of the gate.
final class AttemptsInMemory: AttemptLimiter {
    private let clock: StillClock
    private let tats = Mutex<[AttemptBucket: UInt64]>([:])

    init(_ clock: StillClock) { self.clock = clock }

    private static let rates = AttemptRates(
        openings: AttemptRate(count: 300, windowSeconds: 3_600, burst: 100),
        sms: AttemptRate(count: 1_000, windowSeconds: 3_600, burst: 1_000))

    func charge(_ buckets: [AttemptBucket]) async -> AttemptVerdict {
        let now = clock.now.monotonic
        let rates = buckets.map { Self.rates[$0.kind] }
        return tats.withLock { tats in
            let outcomes = zip(buckets, rates).map { bucket, rate in
                GCRA.take(
                    now: now.nanoseconds / 1_000, tat: tats[bucket] ?? 0, interval: rate.limit.interval,
                    tolerance: rate.limit.tolerance, want: 1)
            }
            let full = zip(buckets, outcomes).filter { $0.1.granted == 0 }
            guard full.isEmpty else {
                return .refused(
                    full.map { AttemptRefusal($0.kind, retryAfterSeconds: max(1, Int(($1.retryAfter + 999_999) / 1_000_000))) })
            }
            for (bucket, outcome) in zip(buckets, outcomes) { tats[bucket] = outcome.tat }
            return .admitted(zip(buckets, rates).map { AttemptCharge($0, $1, at: now, sharedAt: nil) })
        }
    }

    func mark(_ bucket: AttemptBucket) async { _ = await charge([bucket]) }

    func refund(_ charges: [AttemptCharge]) {
        let now = clock.now.monotonic.nanoseconds / 1_000
        tats.withLock { tats in
            for charge in charges {
                let credit = GCRA.credit(
                    interval: charge.rate.limit.interval, chargedAt: charge.at.nanoseconds / 1_000, now: now)
                tats[charge.bucket] = GCRA.refund(now: now, tat: tats[charge.bucket] ?? 0, credit: credit)
            }
        }
    }
}

extension AttemptRate {
    fileprivate var limit: LimitRate {
        guard let limit = LimitRate(count: count, windowSeconds: windowSeconds, burst: burst) else { preconditionFailure("no rate") }
        return limit
    }
}

/// Apple and Google, with keys of the test's own.
final class PretendProviders: ProviderKeys, @unchecked Sendable {
    // One story uses it at a time; the flags are set between its steps.
    var areOff = false
    var keysAreAway = false
    private let key = providerKey
    private let forger = forgerKey
    /// Generated once: generating a key takes longer than a story.
    private static let (providerKey, forgerKey) = (generated(), generated())

    private static func generated() -> SigningKey {
        do { return try SigningKey.generate(.RS256) } catch { preconditionFailure(error.message) }
    }

    /// A provider beside those of the document, in a story about it.
    var other: Provider?
    var offered: [Provider] { Provider.documented + (other.map { [$0] } ?? []) }

    func rules(for provider: Provider) -> IDTokenRules? {
        if areOff || !offered.contains(provider) { return nil }
        let keys = keysAreAway ? nil : KeySet([key.verificationKey])
        return IDTokenRules(
            provider: provider.rawValue, issuers: [Self.issuer(provider.rawValue)], clientIDs: ["com.example.app"], keys: keys,
            unnamedNonce: provider == .apple ? .refused : .ignored, trustsEmail: provider != other)
    }

    func refetch(_ provider: Provider) async {}

    private static func issuer(_ provider: String) -> String {
        switch provider {
        case "apple": "https://appleid.apple.com"
        case "google": "https://accounts.google.com"
        default: "https://\(provider).test"
        }
    }

    /// A token with these claims in addition to the usual ones, or replacing them; `forger` signs with another key.
    func token(_ provider: String, _ claims: String, now: WallTime) throws -> String {
        guard var members = try JSONSerialization.jsonObject(with: Data(claims.utf8)) as? [String: Any] else {
            throw StoryFault("\(claims) are no claims")
        }
        func take(_ name: String) -> String? { members.removeValue(forKey: name) as? String }
        let seconds = now.seconds
        var token = TokenClaims(
            issuer: take("iss") ?? Self.issuer(provider), audience: take("aud") ?? "com.example.app", subject: take("sub") ?? "",
            issuedAt: seconds + (take("iat").flatMap { Int64($0) } ?? 0), expiresAt: seconds + (take("exp").flatMap { Int64($0) } ?? 600))
        token.email = take("email")
        for (name, value) in members {
            let claim: TokenClaims.Value = (value as? String).map { .string($0) } ?? .boolean(value as? Bool ?? false)
            guard token.add(name, claim) else { throw StoryFault("\(name) is no claim to add") }
        }
        return try (provider == "forger" ? forger : key).issue(token)
    }
}

/// The issuer of the tokens that apps had before, whose subjects stand for accounts.
final class PretendIssuer: @unchecked Sendable {
    static let name = "old"
    private static let issuer = "https://old.test"
    // One story uses it at a time.
    var isAway = false
    private var good: [String: String] = [:]
    private var issued = 0
    private let key: SigningKey

    init() {
        let secret = [UInt8](repeating: 5, count: 64)
        do { key = try SigningKey(secret: secret.rawBytes) } catch { preconditionFailure(error.message) }
    }

    var trusted: TrustedIssuer {
        TrustedIssuer(
            name: Self.name, issuer: Self.issuer, audiences: [], algorithms: .hmac, keys: KeySet([key.verificationKey]), hasAccounts: true)
    }

    /// Every token is another one.
    func token(_ subject: String, now: WallTime) throws -> String {
        issued += 1
        var claims = TokenClaims(
            issuer: Self.issuer, audience: nil, subject: subject, issuedAt: now.seconds, expiresAt: now.seconds + 86_400)
        claims.tokenID = "\(issued)"
        return try key.issue(claims)
    }

    func refreshToken(_ subject: String) -> String {
        issued += 1
        good["old-\(issued)"] = subject
        return "old-\(issued)"
    }

    /// A token is good once.
    func redeem(_ token: String) -> OutsideRefresh.Outcome {
        if isAway { return .unavailable(retryAfterSeconds: 1) }
        guard let subject = good.removeValue(forKey: token) else { return .refused }
        return .subject(IdentityKey(IdentitySource(stored: Self.name), stored: subject))
    }
}
