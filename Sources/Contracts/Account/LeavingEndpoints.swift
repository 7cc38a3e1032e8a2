import Accounts
import Gate
import HTTP
import Wire

/// The endpoint by which users delete their accounts.
extension AccountEndpoints {
    static let leavingRows = [row("delete", .delete, "", leave)]

    /// Erases the account, or closes it until a time. A token of an outside issuer does not delete: its sign-in is not ours.
    private func leave() async throws(Failure) -> LocalResponse {
        let session = try request.requiredSession()
        let end = try await call(await life.leaving.leave(session, caller: request.caller), refused: refusal)
        guard let end else { return LocalResponse(status: 204, contentType: "application/json; charset=utf-8", body: []) }
        return .json(202) { json in
            json.beginObject()
            json.field("erased_at", ISO8601.text(end))
            json.endObject()
        }
    }

    private func refusal(_ refusal: LeavingRefusal) -> Failure {
        switch refusal {
        case .sessionEnded: return Failure(.unauthorized(.revoked), in: dialect)
        case .notRecent(let seconds):
            var failure = Failure(.unauthorized(.signInTooOld(maxAge: UInt32(clamping: seconds))), in: dialect)
            failure.challenge = Failure.Challenge(
                error: "insufficient_user_authentication", description: "A more recent sign-in is required", maxAge: Int(seconds))
            return failure
        }
    }
}
