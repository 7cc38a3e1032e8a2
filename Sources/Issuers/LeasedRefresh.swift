internal import Credentials
import Gate
internal import Threads
internal import Wire

/// The caller of `RefreshLease`'s script in Redis.
package struct LeaseScript: Sendable {
    /// `TOLLGATE_KEY_SECRET`; nil without one. With it, results in Redis are useless even to a holder of the refresh token.
    let secret: @Sendable () -> [UInt8]?
    /// Runs the script; nil if Redis does not answer.
    let call: @Sendable (_ keys: [[UInt8]], _ arguments: [[UInt8]]) async -> RefreshLease.Reply?

    package init(
        secret: @escaping @Sendable () -> [UInt8]?,
        call: @escaping @Sendable (_ keys: [[UInt8]], _ arguments: [[UInt8]]) async -> RefreshLease.Reply?
    ) {
        self.secret = secret
        self.call = call
    }
}

/// A refresh under a Redis lease, so that of several gateways only one sends the refresh token. The gateway that gets the lease
/// refreshes and stores the sealed result; the others poll for it. If Redis does not answer, this gateway refreshes without a lease.
struct LeasedRefresh {
    /// How long to wait for another gateway's result, in milliseconds.
    private static let patience: UInt64 = 9_000
    /// How many calls Redis may leave unanswered.
    private static let maximumMisses = 3

    private let name: [UInt8]
    private let box: SealedBox
    /// This attempt's random id, by which the lease recognises its holder.
    private let holder = SecureRandom.bytes(16)
    private let lease: LeaseScript

    /// Derives the lease's name and the key of the stored result from the refresh token, and from the gateways' secret if there
    /// is one. A reader of Redis learns neither, and only a gateway that has the token can open the result.
    init(_ order: RefreshOrder, _ lease: LeaseScript) {
        let secret = lease.secret()
        let parts = [order.issuer, order.user, order.session].map { Array($0.utf8) }
        func derived(_ label: StaticString) -> [UInt8] {
            KeyedDigest(secret: secret ?? [], label: label).digest(parts[0], parts[1], parts[2], order.token)
        }
        name = Array("tollgate:refresh:".utf8) + Array(Base64URL.encode(derived("tollgate refresh lease").rawBytes).utf8)
        box = SealedBox(secret: derived("tollgate refresh result"), label: "tollgate refresh result")
        self.lease = lease
    }

    /// Runs `body` if this gateway gets the lease, or if Redis does not answer; otherwise waits for the other gateway's result.
    func run(_ body: () async -> TokenRefreshOutcome) async -> (TokenRefreshOutcome, RefreshRole) {
        let deadline = SystemClock.now().monotonic.advanced(milliseconds: Self.patience)
        var misses = 0
        var wait: UInt64 = 20
        while SystemClock.now().monotonic < deadline {
            switch await acquire() {
            case .lead(let number)?:
                let outcome = await body()
                await store(outcome, number)
                return (outcome, .leader)
            case .done(let sealed)?:
                let outcome = box.open(sealed, as: name.rawBytes.text).flatMap(TokenRefreshOutcome.init(stored:))
                return (outcome ?? .unavailable(retryAfterSeconds: 1), .remote)
            case .held?: misses = 0
            case .given?, .lost?, nil:
                misses += 1
                if misses >= Self.maximumMisses { return (await body(), .leader) }
            }
            await pause(milliseconds: wait)
            wait = min(wait * 2, 100)
        }
        return (.unavailable(retryAfterSeconds: 1), .remote)
    }

    private func acquire() async -> RefreshLease.Reply? {
        await call([Array("take".utf8), holder, Self.text(RefreshLease.heldMilliseconds)])
    }

    /// Stores the result under the fencing token `number`. If the lease has expired and belongs to another gateway, the script
    /// rejects it; this gateway's own callers use the result all the same.
    private func store(_ outcome: TokenRefreshOutcome, _ number: [UInt8]) async {
        let milliseconds: Int
        switch outcome {
        case .refreshed: milliseconds = RefreshLease.keptMilliseconds
        case .refused, .unavailable: milliseconds = RefreshLease.refusalMilliseconds
        }
        let sealed = box.seal(outcome.stored, as: name.rawBytes.text)
        for _ in 0..<Self.maximumMisses {
            let reply = await call([Array("give".utf8), number, sealed, Self.text(milliseconds)])
            if reply != nil { return }
        }
    }

    private func call(_ arguments: [[UInt8]]) async -> RefreshLease.Reply? {
        await lease.call([name, Array("tollgate:refresh:numbers".utf8)], arguments)
    }

    private static func text(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }
}

/// The encoding of a result in Redis.
extension TokenRefreshOutcome {
    private enum Kind: UInt8 { case refused, unavailable, kept, rotated }

    var stored: [UInt8] {
        var bytes = ByteBuffer()
        switch self {
        case .refused: bytes.append(Kind.refused.rawValue)
        case .unavailable(let seconds):
            bytes.append(Kind.unavailable.rawValue)
            bytes.append(highBytes: UInt64(seconds), count: 8)
        case .refreshed(let tokens):
            bytes.append((tokens.refresh == nil ? Kind.kept : .rotated).rawValue)
            bytes.append(highBytes: UInt64(tokens.access.count), count: 8)
            bytes.append(tokens.access)
            if let refresh = tokens.refresh { bytes.append(refresh) }
        }
        return bytes.readable.array
    }

    /// Decodes a result; nil if it is malformed.
    init?(stored bytes: [UInt8]) {
        guard let kind = bytes.first.flatMap(Kind.init) else { return nil }
        if kind == .refused {
            self = .refused
            return
        }
        guard bytes.count >= 9 else { return nil }
        let number = bytes.rawBytes.load64(1).byteSwapped
        let rest = bytes.dropFirst(9)
        switch kind {
        case .refused: return nil
        case .unavailable: self = .unavailable(retryAfterSeconds: UInt32(clamping: number))
        case .kept, .rotated:
            guard number <= UInt64(rest.count) else { return nil }
            let refresh = Array(rest.dropFirst(Int(number)))
            let access = Array(rest.prefix(Int(number)))
            self = .refreshed(RefreshedTokens(access: access, refresh: kind == .kept ? nil : refresh))
        }
    }
}
