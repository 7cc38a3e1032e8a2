internal import Accounts
internal import Gate
internal import Synchronization
internal import Transport
internal import Wire

/// Looks into the store several times a second for what others changed there: commands, and gateways that share it.
final class ChangeWatch: Sendable {
    private static let period: UInt64 = 300
    /// What may lie between two clocks, and between a change's time and its commit.
    private static let overlapSeconds: Int64 = 5

    private let directory: AccountDirectory
    private let control: ControlState
    private let memory: AccountMemory
    private let task = Mutex<Task<Void, Never>?>(nil)

    init(directory: AccountDirectory, control: ControlState, memory: AccountMemory) {
        self.directory = directory
        self.control = control
        self.memory = memory
    }

    /// What is ended at the start; false if the store cannot be asked.
    func readAll() async -> Bool {
        do throws(AccountError) {
            control.revoke(try await directory.endedSessions().map(RevokedSession.init))
            return true
        } catch {
            return false
        }
    }

    /// `isComplete`: whether `readAll` has answered, or the first look must go back as far.
    func start(isComplete: Bool) {
        task.withLock { task in
            // Waited for by nobody: it ends when `stop` cancels it.
            task = Task { await self.watch(isComplete) }
        }
    }

    func stop() { task.withLock { $0 }?.cancel() }

    private func watch(_ isComplete: Bool) async {
        var since = isComplete ? EventLoop.now().wall : nil
        var told = Told()
        while !Task.isCancelled {
            await pause(milliseconds: Self.period)
            let now = EventLoop.now().wall
            guard await look(since, &told) else { continue }
            since = WallTime(seconds: now.seconds - Self.overlapSeconds)
        }
    }

    /// What has been passed on and lies in the part that is read again.
    private struct Told {
        var ended: Set<EndedSession> = []
        var changes: [EntitlementChange] = []
    }

    private func look(_ since: WallTime?, _ told: inout Told) async -> Bool {
        do throws(AccountError) {
            let ended = try await directory.endedSessions(since: since)
            let changes = try await directory.entitlementChanges(since: since ?? EventLoop.now().wall)
            pass(on: ended.filter { !told.ended.contains($0) }, changes.filter { !told.changes.contains($0) })
            told = Told(ended: Set(ended), changes: changes)
            control.accountsAnswered()
            return true
        } catch {
            return false
        }
    }

    private func pass(on ended: [EndedSession], _ changes: [EntitlementChange]) {
        if !ended.isEmpty {
            for session in ended { memory.forget(session.user) }
            control.revoke(ended.map(RevokedSession.init))
        }
        guard !changes.isEmpty else { return }
        let tiers = control.configuration.tiers
        for change in changes { memory.update(change.entitlement, of: change.user) }
        control.learn(changes.map { UserStanding($0.user, $0.entitlement, tiers: tiers) })
    }
}
