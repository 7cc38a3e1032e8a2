package import Wire

/// The deletion of accounts by their users.
package struct Leaving: Sendable {
    private let context: AccountContext
    private let rule: DeletionRule

    package init(context: AccountContext, rule: DeletionRule) {
        self.context = context
        self.rule = rule
    }

    /// Closes the caller's account; the time of its erasure, or nil if it is gone already.
    package func leave(_ session: CallerSession, caller: Caller) async throws(AccountError<RecencyRefusal>) -> WallTime? {
        let audit = context.audit(caller)
        switch try await AccountError<RecencyRefusal>.failing(try await context.ask(await context.store.leave(session, rule, audit))) {
        case .erased: return nil
        case .closed(let end): return end
        case .notRecent: throw .refused(.notRecent(maxAge: rule.recentSeconds))
        case .sessionEnded: throw .refused(.sessionEnded)
        }
    }
}
