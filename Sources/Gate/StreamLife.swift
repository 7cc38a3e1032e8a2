import Credentials
import Wire

/// How long an answer may go on: no longer than the token that opened it, nor than its session. Only for the gateway's
/// own sessions; what outside issuers mean by a token's end is theirs.
package struct StreamLife: Equatable, Sendable {
    /// Seconds since 1970, the leeway of clocks included.
    let expiresAt: Int64
    let session: LimitKey

    /// Why an answer has to end.
    package enum End: Equatable, Sendable {
        case expired, sessionEnded

        /// The word for the log.
        package var text: StaticString {
            switch self {
            case .expired: "token_expired"
            case .sessionEnded: "session_ended"
            }
        }
    }
}

extension Admission {
    /// What the answer to this request is bound to; nil if nothing ends it.
    package func streamLife(_ decision: borrowing Decision) -> StreamLife? {
        guard let identity = decision.identity, identity.isOwn, !policy.gates[decision.routeIndex].keepsStreams else { return nil }
        return StreamLife(expiresAt: identity.expiresAt + policy.trust.clockSkewSeconds, session: identity.session)
    }

    /// Why an answer has to end now; nil while it need not. `now` is in seconds since 1970.
    package func end(of life: StreamLife, at now: Int64) -> StreamLife.End? {
        if revoked.contains(life.session) { return .sessionEnded }
        return life.expiresAt <= now ? .expired : nil
    }
}
