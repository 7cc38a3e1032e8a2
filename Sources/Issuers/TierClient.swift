internal import Fetch
internal import Wire

/// Asks outside issuers' tier servers: `GET URL?issuer=…&subject=…`, answered with 200 and `{"tier":…}`.
package final class TierClient: Sendable {
    /// Why there is no answer, for the log.
    package struct Failure: Error, Equatable {
        package let reason: String
        /// Whether nothing was answered.
        package var isAway = false
    }

    private let transfers = TransferThread(
        name: "tiers", TransferThread.Limits(underWay: 128, queued: 8_192, queuedMilliseconds: 3_000))

    package init() {}

    /// Aborts all questions and ends the thread. Blocks.
    package func stop() { transfers.stop() }

    /// The name of the subject's tier, nil for the lowest, within 6 s.
    package func tier(of subject: String, issuer: String, at url: String) async -> Result<String?, Failure> {
        // No redirects: the address of the server is part of what the operator trusts.
        let answer = await transfers.send(
            HTTPTransfer(
                url: Self.target(url, issuer: issuer, subject: subject), connectMilliseconds: 1_000, totalMilliseconds: 3_000,
                largestBody: 16_384))
        return Self.tier(answer)
    }

    /// The URL of a question; `url` may have a query of its own.
    static func target(_ url: String, issuer: String, subject: String) -> String {
        let base = url.prefix { $0 != "#" }
        let joint = !base.contains("?") ? "?" : base.hasSuffix("?") || base.hasSuffix("&") ? "" : "&"
        return "\(base)\(joint)issuer=\(PercentEncoding.encode(issuer))&subject=\(PercentEncoding.encode(subject))"
    }

    /// Anything but an object with the member `tier` is a failure: a page of errors must not make everyone's tier the lowest.
    static func tier(_ answer: EndedTransfer) -> Result<String?, Failure> {
        if let failure = answer.problem { return .failure(Failure(reason: failure, isAway: true)) }
        guard answer.status == 200 else { return .failure(Failure(reason: "the answer has the status \(answer.status)")) }
        do throws(RequestObject.Fault) {
            let body = try RequestObject(answer.body)
            if let name = try body.text("tier") { return .success(name) }
            return body.isNull("tier") ? .success(nil) : .failure(Failure(reason: "the answer has no member tier"))
        } catch {
            return .failure(Failure(reason: "the answer is no JSON object with a string or null as its tier"))
        }
    }
}
