internal import Credentials
internal import Wire

/// Why a notification is not taken.
package enum NoticeRefusal: Sendable, Equatable {
    case notAuthentic
    /// Apple's keys cannot be fetched.
    case keysUnavailable
}

/// The notifications that Apple sends of the users of Sign in with Apple.
package struct AppleNotices: Sendable {
    private let context: AccountContext
    private let keys: any ProviderKeys
    private let ways: SignInWays
    private let rule: DeletionRule

    package init(context: AccountContext, keys: any ProviderKeys, ways: SignInWays, rule: DeletionRule) {
        self.context = context
        self.keys = keys
        self.ways = ways
        self.rule = rule
    }

    /// Takes a notification (JWS); one of another kind, or of a user who has no account, changes nothing.
    package func take(_ payload: String) async throws(AccountError<NoticeRefusal>) {
        let notice: ProviderNotice?
        switch await verify(payload) {
        case .success(let verified): notice = verified
        case .failure(let fault): throw .refused(fault.isForWantOfKeys ? .keysUnavailable : .notAuthentic)
        }
        guard let applied = notice.flatMap({ AppleNotice($0) }) else { return }
        let audit = context.audit(by: .provider)
        do throws(AccountFailure) {
            _ = try await context.ask(await context.store.apply(applied, ways, rule, audit))
        } catch {
            throw .failed(error)
        }
    }

    private func verify(_ payload: String) async -> Result<ProviderNotice?, IDTokenFault> {
        guard let rules = keys.rules(for: .apple) else { return .failure(.token(.wrongIssuer)) }
        let outcome = payload.withRawBytes { rules.notice($0) }
        guard case .failure(let fault) = outcome, fault.isForUnknownKey || fault.isForWantOfKeys else { return outcome }
        await keys.refetch(.apple)
        let fetched = keys.rules(for: .apple) ?? rules
        return payload.withRawBytes { fetched.notice($0) }
    }
}
