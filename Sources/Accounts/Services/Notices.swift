internal import Credentials
internal import Wire

/// Mails and SMS that tell users of changes of their accounts, and the way back from a change of the email.
///
/// A notice is stored in the transaction of its change and sent after the commit. A gateway claims those that are due, and settles
/// them when the mail server has taken them. If the gateway dies in between, the notice is due again after a while, so that none is
/// lost; one may then come twice.
package struct Notices: Sendable {
    /// Between two looks at what is due.
    package static let pauseMilliseconds: UInt64 = 2_000
    private static let batch = 50
    private static let tagBytes = 16

    private let context: AccountContext
    private let courier: any NoticeCourier
    private let limiter: any AttemptLimiter
    private let key: KeyedDigest

    /// `secret` is the refresh token secret, from which the key of the tokens is derived.
    package init(context: AccountContext, courier: any NoticeCourier, limiter: any AttemptLimiter, secret: [UInt8]) {
        self.context = context
        self.courier = courier
        self.limiter = limiter
        key = KeyedDigest(secret: secret, label: "tollgate way back")
    }

    /// Settles what was sent, and hands the notices that are due to the courier.
    package func sendDue() async throws(AccountFailure) {
        try await settle()
        var found = Self.batch
        while found == Self.batch {
            let due = try await context.ask(await context.store.claimNotices(at: context.storeTime, limit: Self.batch))
            for notice in due {
                let wayBack = notice.kind == .emailLeft ? token(of: notice.id) : nil
                let content = Message.Content.notice(notice, wayBack: wayBack)
                courier.send(Message(to: notice.recipient, content, languages: notice.language), for: nil)
            }
            found = due.count
        }
    }

    /// Tells the store which notices need no further attempt.
    package func settle() async throws(AccountFailure) {
        let settled = courier.settledNotices
        guard !settled.isEmpty else { return }
        try await context.ask(await context.store.settleNotices(settled))
        courier.forget(settled)
    }

    /// Whether a token leads back to a former email. Changes nothing.
    package func leadsBack(_ token: String) async throws(AccountFailure) -> Bool {
        guard let notice = notice(of: token) else { return false }
        return try await context.ask(await context.store.wayBack(by: notice, now: context.storeTime)) != nil
    }

    /// Gives the account its former email back, ends all its sessions, and removes its password; nil if the token leads nowhere.
    package func takeBack(_ token: String, caller: Caller) async throws(AccountFailure) -> EmailReturn? {
        try await Guesses(context: context, limiter: limiter).judge(at: nil, from: caller.address) {
            () throws(AccountFailure) -> EmailReturn? in
            guard let notice = notice(of: token) else { return nil }
            return try await context.ask(await context.store.takeBack(by: notice, context.audit(caller)))
        }
    }

    // MARK: tokens

    /// Made of the notice's id alone, so that it can be made again after a crash and is stored nowhere.
    private func token(of notice: UUID) -> String { Base64URL.encode((notice.bytes + tag(of: notice)).rawBytes) }

    private func notice(of token: String) -> UUID? {
        guard let bytes = Base64URL.decode(Array(token.utf8).rawBytes), bytes.count == 16 + Self.tagBytes,
            let notice = UUID(bytes: Array(bytes.prefix(16)).rawBytes)
        else { return nil }
        return Digest.constantTimeEquals(Array(bytes.dropFirst(16)).rawBytes, tag(of: notice).rawBytes) ? notice : nil
    }

    private func tag(of notice: UUID) -> [UInt8] { Array(key.digest(notice.bytes).prefix(Self.tagBytes)) }
}
