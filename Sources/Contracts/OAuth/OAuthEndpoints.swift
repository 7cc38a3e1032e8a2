package import Accounts
import Gate
package import HTTP
import Wire

/// `POST /oauth/revoke` (RFC 7009) and `POST /oauth/introspect` (RFC 7662). Any thread.
package struct OAuthEndpoints: Sendable {
    private let revocation: TokenRevocation
    private let judge: TokenJudge

    package init(revocation: TokenRevocation, judge: TokenJudge) {
        self.revocation = revocation
        self.judge = judge
    }

    /// Ends the session of a token. Its holder needs no other proof: apps have no secret. A `token_type_hint` is not needed, because
    /// the forms of the tokens differ.
    package func revoke(_ request: LocalRequest) async -> LocalResponse {
        await Self.respond(request) { form throws(Failure) in
            let caller = Caller(address: request.client, device: request.value(of: "user-agent"))
            let outcome: Revocation
            let token = try form.token()
            do throws(AccountFailure) {
                outcome = try await revocation.revoke(token, caller: caller) { judge.read($0) }
            } catch {
                throw Failure(error, in: OAuthForm.dialect)
            }
            switch outcome {
            // A client cannot do more about a token that does not count (RFC 7009 §2.2).
            case .ended, .unknown: return .json { $0.beginObject(); $0.endObject() }
            case .unsupported:
                throw Failure(400, "unsupported_token_type", "The token belongs to no session here that it could end.")
            }
        }
    }

    /// Tells an internal caller, which the gate has recognised, whether an access token counts, and of whom it is.
    package func introspect(_ request: LocalRequest) async -> LocalResponse {
        await Self.respond(request) { form throws(Failure) in
            let judged: JudgedToken?
            let token = try form.token()
            do throws(AccountFailure) {
                judged = try await judge.judge(token)
            } catch {
                throw Failure(error, in: OAuthForm.dialect)
            }
            return .json { json in
                json.beginObject()
                json.field("active", judged != nil)
                judged?.write(to: &json)
                json.endObject()
            }
        }
    }

    private static func respond(
        _ request: LocalRequest, _ answer: (OAuthForm) async throws(Failure) -> LocalResponse
    ) async -> LocalResponse {
        do throws(Failure) {
            return try await answer(OAuthForm(request))
        } catch {
            return error.response(in: OAuthForm.dialect, requestID: request.requestID)
        }
    }
}
