internal import Credentials
internal import Wire

/// Why a notification is not taken.
package enum NoticeRefusal: Sendable, Equatable {
    case notAuthentic
}

/// The notifications that Apple sends of the users of Sign in with Apple.
package struct AppleNotices: Sendable {
    private let context: AccountContext
    private let keys: any ProviderKeys
    private let limiter: any AttemptLimiter
    private let ways: SignInWays
    private let rule: DeletionRule

    package init(
        context: AccountContext, keys: any ProviderKeys, limiter: any AttemptLimiter, ways: SignInWays, rule: DeletionRule
    ) {
        self.context = context
        self.keys = keys
        self.limiter = limiter
        self.ways = ways
        self.rule = rule
    }

    /// Verifies and applies a notification (JWS). Unknown kinds and users without an account change nothing. A forged one counts against
    /// the sender's address, because its verification may have waited for Apple's keys.
    package func take(_ payload: String, caller: Caller) async throws(AccountError<NoticeRefusal>) {
        try await Guesses(context: context, limiter: limiter).judge(from: caller.address) { () throws(AccountError<NoticeRefusal>) in
            switch await verify(payload) {
            case .success(let notice): try await AccountError<NoticeRefusal>.failing(try await apply(notice))
            case .failure(let fault) where fault.isForWantOfKeys: throw .failed(.unavailable(retryAfterSeconds: 60))
            case .failure: throw .refused(.notAuthentic)
            }
        }
    }

    private func apply(_ notice: ProviderNotice?) async throws(AccountFailure) {
        guard let applied = notice.flatMap({ AppleNotice($0) }) else { return }
        _ = try await context.ask(await context.store.apply(applied, ways, rule, context.audit(by: .provider)))
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
