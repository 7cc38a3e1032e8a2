internal import Gate
internal import Settings
internal import Transport
internal import Wire

/// Refreshes tokens at the auth servers of outside issuers, in the form that the trust line names; with Redis, by one
/// gateway for all.
final class OutsideRefreshes: Sendable {
    private let control: ControlState
    private let transfers = RefreshTransfers()

    init(control: ControlState) { self.control = control }

    func stop() { transfers.stop() }

    func refresh(_ order: RefreshOrder) async -> (TokenRefreshOutcome, RefreshRole) {
        let configuration = control.configuration
        // A reload may have taken the line away since the request was decided about.
        guard let declared = configuration.trusts.first(where: { $0.name == order.issuer })?.refresh else { return (.refused, .leader) }
        guard configuration.redis != nil else { return (await ask(declared, order), .leader) }
        let lease = SharedRefresh(order, secret: configuration.keySecret ?? configuration.jwtSecret, redis: control.mailboxes[0])
        return await lease.carryOut { await self.ask(declared, order) }
    }

    private func ask(_ declared: RefreshDeclaration, _ order: RefreshOrder) async -> TokenRefreshOutcome {
        let form = RefreshForm(declared.contract)
        let answer = await transfers.post(form.question(order.token), to: declared.url)
        let outcome = Self.outcome(answer, form, order)
        if case .unavailable = outcome {
            let why = answer.complaint ?? (answer.status / 100 == 2 ? "the answer is not understood" : "the answer has the status \(answer.status)")
            control.log.warning("a token cannot be refreshed", ("issuer", order.issuer), ("error", why))
        }
        return outcome
    }

    /// Only a definite verdict refuses: a server that is late, away, overloaded or not understood has given none.
    static func outcome(_ answer: RefreshTransfers.Answer, _ form: RefreshForm, _ order: RefreshOrder) -> TokenRefreshOutcome {
        let unknown = TokenRefreshOutcome.unavailable(retryAfterSeconds: 1)
        guard answer.complaint == nil else { return unknown }
        switch answer.status {
        case 200..<300: return form.tokens(in: answer.body, insteadOf: order.token).map { .refreshed($0) } ?? unknown
        case 408, 425, 429: return unknown
        case 400..<500: return .refused
        default: return unknown
        }
    }
}
