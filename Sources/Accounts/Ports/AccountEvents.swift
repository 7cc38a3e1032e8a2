package import Wire

/// Tells every gateway what must count at once. What is told here is in the store already: a gateway that missed it
/// reads it there.
package protocol AccountEvents: Sendable {
    /// From now on the access tokens of these sessions are refused.
    func ended(_ sessions: [EndedSession]) async
    func changed(_ entitlement: Entitlement, of user: UUID) async
}

/// Something out of the ordinary that the log should tell.
package enum AccountNotice: Sendable, Equatable {
    /// A session is refreshed more than ten times in ten seconds.
    case refreshStorm(session: UUID, contract: ContractID)
    /// A spent refresh token came back, and the session was ended.
    case refreshReuse(session: UUID, user: UUID)
    /// A refresh token came whose number was never handed out.
    case refreshAhead(session: UUID)
    /// The store cannot do what it must.
    case storeFailed(String)
    /// The store is away, and a call was given up.
    case storeAway(String)
    /// No token can be signed.
    case cannotSign(String)
}
