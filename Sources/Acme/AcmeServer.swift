internal import Fetch

/// The transfers to an ACME server, one at a time.
package final class AcmeServer: Sendable {
    private static let milliseconds = 15_000
    /// A chain of certificates has some 5 KiB.
    private static let largestAnswer = 262_144

    private let transfers = TransferThread(name: "acme", TransferThread.Limits(underWay: 4, queued: 64, queuedMilliseconds: 10_000))

    package init() {}

    /// `authorityFile` has the CAs of the server's own certificate, in place of the system's.
    package func send(_ request: AcmeRequest, authorityFile: String?) async -> AcmeResponse {
        var transfer = HTTPTransfer(
            url: request.url, connectMilliseconds: Self.milliseconds, totalMilliseconds: Self.milliseconds, largestBody: Self.largestAnswer,
            body: request.body, isSentOnce: true, authorityFile: authorityFile)
        transfer.bodyType = "application/jose+json"
        let ended = await transfers.send(transfer)
        var response = AcmeResponse(status: ended.status, body: ended.body)
        (response.nonce, response.location, response.links) = (ended.replayNonce, ended.location, ended.links)
        (response.retryAfter, response.problem) = (ended.retryAfter, ended.problem)
        return response
    }

    /// Aborts what is under way. Blocks.
    package func stop() { transfers.stop() }
}
