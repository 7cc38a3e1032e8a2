internal import Accounts

/// Deletes expired codes, sessions and log rows from the store, at the start and once an hour.
struct AccountSweep: Sendable {
    private static let periodMilliseconds: UInt64 = 3_600_000
    /// Seconds by which one sweep may go beyond the last: twice the period, so that sweeps catch up after the gateway was down.
    private static let stride = Int64(periodMilliseconds / 1_000 * 2)

    let context: AccountContext
    private let rounds = Rounds()

    init(context: AccountContext) { self.context = context }

    func start() {
        rounds.start(context.clock) { [context] number in
            // The first goes no further than the last of the process before, or restarts would add up.
            do throws(AccountFailure) { try await context.sweep(stride: number == 0 ? 0 : Self.stride) } catch {
                // The service has logged it; the next hour brings the next try.
            }
            return Self.periodMilliseconds
        }
    }

    func stop() { rounds.stop() }
}
