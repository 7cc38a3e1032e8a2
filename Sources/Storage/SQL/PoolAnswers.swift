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
            throw StoreFault(queueIsFull: error == .full)
        }
        switch outcome {
        case .success(let value): return value
        case .failure(let fault): throw StoreFault(fault)
        }
    }
}

extension StoreFault {
    init(_ fault: SQLFault) {
        self =
            switch fault {
            case .conflict: .unavailable(fault.reason)
            case .busy(let reason): .busy(reason)
            case .lost(let reason): .unavailable(reason)
            case .failed(let reason): .failed(reason)
            case .banned(let ban): .banned(ban)
            }
    }

    /// A call that was not let in: because too many wait, or because the store is closed.
    init(queueIsFull: Bool) { self = .unavailable(queueIsFull ? "too many calls wait for the database" : "the store is closed") }
}
