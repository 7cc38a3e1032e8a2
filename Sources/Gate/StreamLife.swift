import Credentials
import Wire

/// Lifetime of a long answer: it ends with its token's expiry or its session. Only for the gateway's own sessions.
package struct StreamLife: Equatable, Sendable {
    /// Seconds since 1970, including the leeway for clock skew.
    let expiresAt: Int64
    let session: LimitKey

    /// Why an answer must end.
    package enum End: Equatable, Sendable {
        case expired, sessionEnded

        /// Word for the log.
        package var text: StaticString {
            switch self {
            case .expired: "token_expired"
            case .sessionEnded: "session_ended"
            }
        }
    }
}

extension Admission {
    /// The lifetime of this request's answer; nil if nothing ends it.
    package func streamLife(_ decision: borrowing Decision) -> StreamLife? {
        guard let identity = decision.identity, identity.isOwn, !policy.gates[decision.routeIndex].keepsStreams else { return nil }
        return StreamLife(expiresAt: identity.expiresAt + policy.trust.clockSkewSeconds, session: identity.session)
    }

    /// Why an answer must end now; nil if it need not. `now` is in seconds since 1970.
    package func end(of life: StreamLife, at now: Int64) -> StreamLife.End? {
        if revoked.contains(life.session) { return .sessionEnded }
        return life.expiresAt <= now ? .expired : nil
    }
}
