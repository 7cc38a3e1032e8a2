internal import Fetch
package import Gate
internal import Synchronization
internal import Threads
package import Wire

/// The refresh endpoint of an outside issuer, and its request format.
package struct RefreshServer: Sendable {
    package var url: String
    package var form: RefreshForm

    package init(url: String, form: RefreshForm) {
        self.url = url
        self.form = form
    }
}

/// Refreshes tokens at outside issuers' endpoints (RFC 6749 §6, in the trust line's format). With Redis a lease ensures that
/// only one gateway sends each refresh token.
package final class ExternalRefresher: Sendable {
    /// The endpoint of an issuer; nil if its tokens are not refreshed. Read for each refresh, since a reload may change it.
    private let server: @Sendable (_ issuer: String) -> RefreshServer?
    /// nil without Redis.
    private let lease: LeaseScript?
    private let onFailure: @Sendable (_ issuer: String, _ reason: String) -> Void
    /// How long a refresh waits for others at most, and for the server, in milliseconds.
    static let queuedMilliseconds: UInt64 = 2_000
    static let totalMilliseconds = 8_000

    private let pauses = Mutex(IssuerPauses())
    private let transfers = TransferThread(
        name: "refresh", TransferThread.Limits(underWay: 1_024, queued: 1_024, queuedMilliseconds: queuedMilliseconds))

    package init(
        server: @escaping @Sendable (_ issuer: String) -> RefreshServer?, lease: LeaseScript?,
        onFailure: @escaping @Sendable (_ issuer: String, _ reason: String) -> Void
    ) {
        self.server = server
        self.lease = lease
        self.onFailure = onFailure
    }

    /// Aborts refreshes under way and ends the thread. Blocks.
    package func stop() { transfers.stop() }

    /// Refreshes a token; answers in bounded time.
    package func refresh(_ order: RefreshOrder, from address: IPAddress?) async -> (TokenRefreshOutcome, RefreshRole) {
        guard let server = server(order.issuer) else { return (.refused, .leader) }
        guard let lease else { return (await send(order, to: server, from: address), .leader) }
        return await LeasedRefresh(order, lease).run { await self.send(order, to: server, from: address) }
    }

    /// The seconds for which an issuer wants no refresh from this client's address; nil if it may be asked.
    func pause(of issuer: String, from address: IPAddress?) -> UInt32? {
        pauses.withLock { $0.left(of: issuer, from: address, at: SystemClock.now().monotonic) }
    }

    private func send(_ order: RefreshOrder, to server: RefreshServer, from address: IPAddress?) async -> TokenRefreshOutcome {
        if let seconds = pause(of: order.issuer, from: address) { return .unavailable(retryAfterSeconds: seconds) }
        // No redirects: a refresh token is sent to the configured URL only. No resend: it may be valid only once.
        let answer = await transfers.send(
            HTTPTransfer(
                url: server.url, connectMilliseconds: 3_000, totalMilliseconds: Self.totalMilliseconds, largestBody: 65_536,
                body: server.form.request(order.token), isSentOnce: true))
        pauses.withLock { $0.note(answer.status, answer.retryAfter, of: order.issuer, from: address, at: SystemClock.now().monotonic) }
        let outcome = Self.outcome(answer, server.form, order)
        if case .unavailable = outcome {
            let why =
                answer.problem ?? (answer.status / 100 == 2 ? "the answer is not understood" : "the answer has the status \(answer.status)")
            onFailure(order.issuer, why)
        }
        return outcome
    }

    /// The outcome of a response. Only a definite 4xx is a refusal; timeouts, 5xx, overload and unparsable responses are transient.
    static func outcome(_ answer: EndedTransfer, _ form: RefreshForm, _ order: RefreshOrder) -> TokenRefreshOutcome {
        let unknown = TokenRefreshOutcome.unavailable(retryAfterSeconds: 1)
        guard answer.problem == nil else { return unknown }
        switch answer.status {
        case 200..<300: return form.tokens(in: answer.body, insteadOf: order.token).map { .refreshed($0) } ?? unknown
        case 408, 425, 429: return unknown
        case 400..<500: return .refused
        default: return unknown
        }
    }
}
