import Accounts
import Fetch
import Synchronization
import Wire

@testable import Purchases

/// A store's API that answers as a test says, and remembers what it was asked. Its clock moves by the pauses of who waits.
final class ScriptedStore: Sendable {
    private struct State {
        var asked: [HTTPTransfer] = []
        var milliseconds: UInt64 = 0
    }

    private let state = Mutex(State())
    private let answer: @Sendable (_ transfer: HTTPTransfer, _ count: Int) -> EndedTransfer

    /// `count` is how many questions came before.
    init(_ answer: @escaping @Sendable (_ transfer: HTTPTransfer, _ count: Int) -> EndedTransfer) { self.answer = answer }

    /// Bodies by the path and query behind the host; 404 for others.
    convenience init(_ bodies: [String: String]) {
        self.init { transfer, _ in
            let path = "/" + transfer.url.split(separator: "/", maxSplits: 2)[2]
            return bodies[path].map { .ok($0) } ?? EndedTransfer(status: 404, body: Array("{}".utf8))
        }
    }

    var asked: [HTTPTransfer] { state.withLock { $0.asked } }
    var paths: [String] { asked.map { "/" + $0.url.split(separator: "/", maxSplits: 2)[2] } }
    /// The time that has passed by pauses and by what each question took.
    var elapsed: UInt64 { state.withLock { $0.milliseconds } }

    func pass(_ milliseconds: UInt64) { state.withLock { $0.milliseconds += milliseconds } }

    var requests: StoreRequests {
        StoreRequests(
            { transfer in
                let count = self.state.withLock { state in
                    state.asked.append(transfer)
                    return state.asked.count - 1
                }
                return self.answer(transfer, count)
            },
            clock: {
                Moment(monotonic: MonotonicTime(nanoseconds: (1 + self.elapsed) * 1_000_000), wall: WallTime(seconds: 1_000))
            }, wait: { self.pass($0) })
    }
}

extension EndedTransfer {
    static func ok(_ body: String, date: String? = nil) -> EndedTransfer {
        EndedTransfer(status: 200, body: Array(body.utf8), date: date)
    }
}

/// The one fault, or "" for none.
func fault<Value>(_ body: () async throws(StorefrontFault) -> Value) async -> String {
    do throws(StorefrontFault) {
        _ = try await body()
        return ""
    } catch {
        switch error {
        case .notAuthentic(let reason): return "not authentic: \(reason)"
        case .malformed(let reason): return "malformed: \(reason)"
        case .foreign(let reason): return "foreign: \(reason)"
        case .environmentRefused: return "environment"
        case .unavailable(let reason, let seconds, _): return "unavailable \(seconds): \(reason)"
        }
    }
}

let alice = UUID(high: 0xA, low: 0xA)
let bob = UUID(high: 0xB, low: 0xB)

/// Effects as short texts, for tables of cases.
func shown(_ effects: [PurchaseEffect]) -> [String] {
    effects.map { effect in
        switch effect {
        case .status(let key, let status):
            let until = status.until.map { "\($0.seconds)" } ?? "ever"
            return "\(key.original) \(status.state) \(status.product) until \(until)\(status.renews ? " renews" : "")"
                + " [\(status.transactions.joined(separator: " "))]"
        case .owner(let key, let account, _, _): return "\(key.original) of \(name(account))"
        case .ended(let ended): return "\(ended.transaction) \(ended.state?.rawValue ?? "back")"
        case .transfer(_, _, let from, let to, _): return "from \(from.map(name).joined(separator: " ")) to \(name(to))"
        }
    }
}

private func name(_ account: UUID) -> String { account == alice ? "alice" : account == bob ? "bob" : account.text }

/// The kind of each effect as the tables of the documentation say it.
func kinds(_ effects: [PurchaseEffect]) -> Set<String> {
    Set(
        effects.map { effect in
            switch effect {
            case .status(_, let status): status.state.rawValue
            case .owner: "owner"
            case .ended(let ended): ended.state.map { "ended: \($0.rawValue)" } ?? "ended: taken back"
            case .transfer: "transfer"
            }
        })
}
