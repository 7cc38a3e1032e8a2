package import Credentials
package import Wire

/// Second factors, and the sessions that have proven one. Each proof, and each that counts no more, is an entry of the change log, so that
/// every gateway knows it within a second.
package protocol FactorRecords: Sendable {
    func factor(of user: UUID) async throws(StoreFault) -> KeptFactor?
    /// Begins an enrolment, in place of one that was not confirmed.
    func enrol(_ factor: KeptFactor, by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome
    /// Takes a code, once, and notes the proof in the session.
    func prove(_ proof: FactorProof, by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome
    /// Replaces the backup codes; the session must have proven the factor lately.
    func setBackupCodes(_ digests: [[UInt8]], by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome
    /// Removes the factor with its backup codes; the session must have proven it lately. All proofs of the account's sessions are over.
    func dropFactor(by caller: CallerSession, _ audit: AuditContext) async throws(StoreFault) -> FactorOutcome
    /// The same for the operator. False if the account has none; nil without such an account.
    func dropFactor(of user: UUID, _ audit: AuditContext) async throws(StoreFault) -> Bool?
    /// The sessions that have proven a factor since a time.
    func provenSessions(since time: WallTime) async throws(StoreFault) -> [ProvenSession]
}

/// The outcome of a call for the second factor.
package typealias FactorOutcome = Result<Void, FactorRefusal>
