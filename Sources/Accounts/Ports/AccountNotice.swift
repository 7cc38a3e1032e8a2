package import Credentials
package import Wire

/// An event worth a log line.
package enum AccountNotice: Sendable, Equatable {
    /// A session is refreshed more than ten times in ten seconds.
    case refreshStorm(session: UUID, contract: ContractID)
    /// A spent refresh token came back, and the session was ended.
    case refreshReuse(session: UUID, user: UUID)
    /// A refresh token came with a counter that was never issued.
    case refreshAhead(session: UUID)
    /// The store refused a call, or holds data that cannot be read.
    case storeFailed(String)
    /// The store is unavailable, and a call failed.
    case storeAway(String)
    /// A guest was merged into an account.
    case merged(from: UUID, into: UUID)
    /// Services have moved what was the merged account's.
    case mergeTaken(from: UUID, into: UUID)
    /// The announcement of a merge has ended before that.
    case mergeUntaken(from: UUID, into: UUID)
    /// Apple does not revoke or exchange tokens now; it is asked again.
    case appleAway(String)
    /// The end of so many entries of a queue.
    case outgoing(OutgoingQueue, OutgoingResult, Int)
    /// All queues.
    case waiting([OutgoingState])
    /// The signing key cannot sign a token.
    case cannotSign(String)
}
