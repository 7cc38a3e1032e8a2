package import Gate
internal import Transport
internal import Wire

/// An auth server at which tokens are refreshed, and the form in which it is asked.
package struct RefreshServer: Sendable {
    package var url: String
    package var form: RefreshForm

    package init(url: String, form: RefreshForm) {
        self.url = url
        self.form = form
    }
}

/// Refreshes tokens at the auth servers of outside issuers, in the form that the trust line names; with Redis, by one
/// gateway for all.
package final class ExternalRefresher: Sendable {
    /// The server of an issuer; nil where its tokens are not refreshed, perhaps since a reload.
    private let server: @Sendable (_ issuer: String) -> RefreshServer?
    /// nil where this gateway acts alone.
    private let lease: LeaseScript?
    private let onFailure: @Sendable (_ issuer: String, _ reason: String) -> Void
    private let transfers = RefreshTransfers()

    package init(
        server: @escaping @Sendable (_ issuer: String) -> RefreshServer?, lease: LeaseScript?,
        onFailure: @escaping @Sendable (_ issuer: String, _ reason: String) -> Void
    ) {
        self.server = server
        self.lease = lease
        self.onFailure = onFailure
    }

    package func stop() { transfers.stop() }

    package func refresh(_ order: RefreshOrder) async -> (TokenRefreshOutcome, RefreshRole) {
        guard let server = server(order.issuer) else { return (.refused, .leader) }
        guard let lease else { return (await ask(server, order), .leader) }
        return await LeasedRefresh(order, lease).carryOut { await self.ask(server, order) }
    }

    private func ask(_ server: RefreshServer, _ order: RefreshOrder) async -> TokenRefreshOutcome {
        let answer = await transfers.post(server.form.question(order.token), to: server.url)
        let outcome = Self.outcome(answer, server.form, order)
        if case .unavailable = outcome {
            let why = answer.complaint ?? (answer.status / 100 == 2 ? "the answer is not understood" : "the answer has the status \(answer.status)")
            onFailure(order.issuer, why)
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
