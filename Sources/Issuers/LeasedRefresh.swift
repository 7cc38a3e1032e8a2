internal import Credentials
package import Gate
internal import Transport
internal import Wire

/// How `RefreshLease`'s script is run in Redis: nil where Redis gave no answer.
package struct LeaseScript: Sendable {
    /// What the gateways have in common: without it a result left in Redis is worth something to whoever has the token.
    let secret: @Sendable () -> [UInt8]?
    let call: @Sendable (_ keys: [[UInt8]], _ arguments: [[UInt8]]) async -> RefreshLease.Reply?

    package init(
        secret: @escaping @Sendable () -> [UInt8]?,
        call: @escaping @Sendable (_ keys: [[UInt8]], _ arguments: [[UInt8]]) async -> RefreshLease.Reply?
    ) {
        self.secret = secret
        self.call = call
    }
}

/// One refresh that several gateways may want at a time: whoever gets the lease carries it out, the others wait for what
/// came of it. While Redis does not answer, this gateway acts alone.
struct LeasedRefresh {
    /// How long another gateway's refresh is waited for, in milliseconds.
    private static let patience: UInt64 = 9_000
    /// Questions that Redis may leave unanswered.
    private static let mostMissed = 3

    private let name: [UInt8]
    private let box: SealedBox
    private let taker = SecureRandom.bytes(16)
    private let lease: LeaseScript

    /// Both the lease's name and the key of what is left there follow from the refresh token: whoever reads Redis without
    /// it learns nothing, and whoever shares the result must have had it. A secret of the gateways' own makes it worth
    /// nothing to others who have it.
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

    func carryOut(_ body: () async -> TokenRefreshOutcome) async -> (TokenRefreshOutcome, RefreshRole) {
        let deadline = EventLoop.now().monotonic.advanced(milliseconds: Self.patience)
        var missed = 0
        var wait: UInt64 = 20
        while EventLoop.now().monotonic < deadline {
            switch await take() {
            case .lead(let number)?:
                let outcome = await body()
                await give(outcome, number)
                return (outcome, .leader)
            case .done(let sealed)?:
                let outcome = box.open(sealed, as: name.rawBytes.text).flatMap(TokenRefreshOutcome.init(stored:))
                return (outcome ?? .unavailable(retryAfterSeconds: 1), .remote)
            case .held?: missed = 0
            case .given?, .lost?, nil:
                missed += 1
                if missed >= Self.mostMissed { return (await body(), .leader) }
            }
            await pause(milliseconds: wait)
            wait = min(wait * 2, 100)
        }
        return (.unavailable(retryAfterSeconds: 1), .remote)
    }

    private func take() async -> RefreshLease.Reply? {
        await call([Array("take".utf8), taker, Self.text(RefreshLease.heldMilliseconds)])
    }

    /// A lease that is somebody else's by now takes no result; ours is good for those who wait here all the same.
    private func give(_ outcome: TokenRefreshOutcome, _ number: [UInt8]) async {
        let milliseconds: Int
        switch outcome {
        case .refreshed: milliseconds = RefreshLease.keptMilliseconds
        case .refused, .unavailable: milliseconds = RefreshLease.refusalMilliseconds
        }
        let sealed = box.seal(outcome.stored, as: name.rawBytes.text)
        for _ in 0..<Self.mostMissed {
            let reply = await call([Array("give".utf8), number, sealed, Self.text(milliseconds)])
            if reply != nil { return }
        }
    }

    private func call(_ arguments: [[UInt8]]) async -> RefreshLease.Reply? {
        await lease.call([name, Array("tollgate:refresh:numbers".utf8)], arguments)
    }

    private static func text(_ number: Int) -> [UInt8] { Array("\(number)".utf8) }
}

/// As it is left for other gateways.
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

    /// nil for what no gateway left.
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
