internal import Accounts
internal import Threads

extension BlockingPool {
    /// Runs `body` on one of the threads, and translates its faults.
    func answer<Value: Sendable>(
        _ body: @escaping @Sendable (inout Resource) throws(SQLFault) -> Value
    ) async throws(StoreFault) -> Value {
        let outcome: Result<Value, SQLFault>
        do throws(Fault) {
            outcome = try await run { resource in
                do throws(SQLFault) { return .success(try body(&resource)) } catch { return .failure(error) }
            }
        } catch {
            throw .unavailable(error == .full ? "too many calls wait for the database" : "the store is closed")
        }
        switch outcome {
        case .success(let value): return value
        case .failure(.conflict): throw .unavailable(SQLFault.conflict.reason)
        case .failure(.busy(let reason)): throw .busy(reason)
        case .failure(.lost(let reason)): throw .unavailable(reason)
        case .failure(.failed(let reason)): throw .failed(reason)
        }
    }
}
