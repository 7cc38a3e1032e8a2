package import Credentials
package import Threads
package import Wire

/// Hashes and compares passwords on a few threads of its own, fairly by client address (`FairQueue`). It sheds load: a full
/// queue refuses at once, and a password that has waited too long is refused unhashed, because its client is about to time out.
package final class PasswordWork: Sendable {
    /// The result of a comparison.
    package struct Check: Sendable, Equatable {
        package let isRight: Bool
        /// The hash to store instead of one of an older kind or cost; only if the password is right.
        package let replacement: String?
    }

    private let pool: BlockingPool<Void>
    private let cost: Argon2Cost
    /// How long a password may wait in the queue.
    private let patience: Duration
    private let random: RandomBytes
    /// Compared with if there is no stored hash: costs as much, and never matches.
    private let decoy: PasswordHash

    /// nil if no thread can be started. A core hashes some 15 to 30 passwords a second at the standard cost, each in 19 MiB;
    /// at most `queue` passwords wait.
    package init?(
        threads: Int, queue: Int, cost: Argon2Cost = .standard, patience: Duration = .seconds(10),
        random: @escaping RandomBytes = SecureRandom.bytes, start: ThreadStart
    ) {
        guard let pool = BlockingPool(name: "passwords", threads: threads, capacity: queue, start: start, make: {})
        else { return nil }
        self.pool = pool
        self.cost = cost
        self.patience = patience
        self.random = random
        decoy = .unmatchable(cost: cost)
    }

    /// The hash to store for `password`, which came from `address`.
    package func hash(_ password: Password, for address: IPAddress?) async throws(AccountFailure) -> String {
        let (cost, random) = (cost, random)
        return try await run(for: address) { () throws(OutOfMemory) in
            try PasswordHash(of: password.bytes.rawBytes, cost: cost, random: random).text
        }
    }

    /// Compares `password` with a stored hash. Without a readable one it takes as long and is wrong. A hash that matches only
    /// the uncomposed form of the password is to be replaced too.
    package func check(
        _ password: Password, against stored: String?, for address: IPAddress?
    ) async throws(AccountFailure) -> Check {
        let known = stored.flatMap { PasswordHash(parsing: $0) }
        let (hash, cost, random) = (known ?? decoy, cost, random)
        return try await run(for: address) { () throws(OutOfMemory) in
            switch try password.match({ bytes throws(OutOfMemory) in try hash.matches(bytes) }) {
            case .none: return Check(isRight: false, replacement: nil)
            case .composed where !hash.needsRehash(for: cost): return Check(isRight: true, replacement: nil)
            case .composed, .typed: break
            }
            let replacement = try PasswordHash(of: password.bytes.rawBytes, cost: cost, random: random)
            return Check(isRight: true, replacement: replacement.text)
        }
    }

    private func run<Value: Sendable>(
        for address: IPAddress?, _ work: @escaping @Sendable () throws(OutOfMemory) -> Value
    ) async throws(AccountFailure) -> Value {
        let deadline = ContinuousClock.now.advanced(by: patience)
        let outcome: Result<Value, OutOfMemory>?
        do throws(BlockingPool<Void>.Fault) {
            outcome = try await pool.run(for: address?.limitPrefix) { _ in
                guard ContinuousClock.now < deadline else { return nil }
                do throws(OutOfMemory) { return .success(try work()) } catch { return .failure(error) }
            }
        } catch {
            throw .overloaded(retryAfterSeconds: 1)
        }
        switch outcome {
        case .success(let value)?: return value
        case .failure?, nil: throw .overloaded(retryAfterSeconds: 1)
        }
    }

    /// Finishes the queued work. Blocks.
    package func close() { pool.close() }
}
