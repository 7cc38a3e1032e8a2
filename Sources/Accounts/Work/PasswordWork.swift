package import Credentials
package import Wire

/// Hashes and compares passwords on a few threads of its own, for each address in its turn: see `FairQueue`. Past the bound
/// of its queue it refuses at once, and what has waited too long it refuses unhashed: its client is about to give up, and
/// work for nobody would only keep others waiting.
package final class PasswordWork: Sendable {
    /// What a comparison told.
    package struct Check: Sendable, Equatable {
        package let isRight: Bool
        /// What to store in place of a hash that is of an older kind or cost; only beside a right password.
        package let replacement: String?
    }

    private let pool: BlockingPool<Void>
    private let cost: Argon2Cost
    /// How long a password may wait for its turn.
    private let patience: Duration
    private let random: RandomBytes
    /// Stands in where there is nothing to compare with: as much work, and never right.
    private let decoy: PasswordHash

    /// nil if the system gives no thread. A core hashes some 15 to 30 passwords a second at the standard cost, each in
    /// 19 MiB; `queue` passwords may wait.
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

    /// What to store for `password`, which came from `address`.
    package func hash(_ password: Password, for address: IPAddress?) async throws(AccountError) -> String {
        let (cost, random) = (cost, random)
        return try await run(for: address) { () throws(OutOfMemory) in
            try PasswordHash(of: password.bytes.rawBytes, cost: cost, random: random).text
        }
    }

    /// Compares `password` with a stored hash. Without one, or with one that cannot be read, it takes as long and is
    /// wrong. A hash that is right for what was typed alone is to be replaced, too.
    package func check(
        _ password: Password, against stored: String?, for address: IPAddress?
    ) async throws(AccountError) -> Check {
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
    ) async throws(AccountError) -> Value {
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

    /// Finishes what was taken. Blocks.
    package func close() { pool.close() }
}
