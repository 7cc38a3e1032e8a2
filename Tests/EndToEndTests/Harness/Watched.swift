import Foundation

/// Why a test cannot go on, as a sentence.
struct Fault: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}

/// A value that other threads change and a test waits for.
// Unchecked: `value` is touched under the lock of `condition` alone.
final class Watched<Value: Sendable>: @unchecked Sendable {
    private let condition = NSCondition()
    private var value: Value

    init(_ value: Value) { self.value = value }

    var now: Value {
        condition.lock()
        defer { condition.unlock() }
        return value
    }

    func change(_ body: (inout Value) -> Void) {
        condition.lock()
        body(&value)
        condition.broadcast()
        condition.unlock()
    }

    /// Waits until `isReached`; after `seconds`, a bound that no good run comes near, it throws.
    @discardableResult
    func wait(for what: String, seconds: Double = 60, until isReached: (Value) -> Bool) throws -> Value {
        let end = Date(timeIntervalSinceNow: seconds)
        condition.lock()
        defer { condition.unlock() }
        while !isReached(value) {
            guard condition.wait(until: end) else { throw Fault("not within \(seconds) s: \(what); there is \(value)") }
        }
        return value
    }
}

/// Runs `body` on a thread of its own and keeps what came of it.
final class Background<Value: Sendable>: Sendable {
    private let outcome = Watched<Result<Value, any Error>?>(nil)

    init(_ body: @escaping @Sendable () throws -> Value) {
        let outcome = outcome
        Thread.detachNewThread {
            let result = Result { try body() }
            outcome.change { $0 = result }
        }
    }

    var isDone: Bool { outcome.now != nil }

    func value(seconds: Double = 60) throws -> Value {
        guard let result = try outcome.wait(for: "the end of a thread", seconds: seconds, until: { $0 != nil }) else {
            throw Fault("a thread left nothing")
        }
        return try result.get()
    }
}

/// Asks again and again, a hundredth of a second apart, until `isReached`: for what cannot be listened to.
func eventually(_ what: String, seconds: Double = 60, _ isReached: () throws -> Bool) throws {
    let end = Date(timeIntervalSinceNow: seconds)
    while try !isReached() {
        guard Date() < end else { throw Fault("not within \(seconds) s: \(what)") }
        usleep(10_000)
    }
}
