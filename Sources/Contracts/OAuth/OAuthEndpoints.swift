package import Accounts
package import Credentials
import Gate
package import HTTP
import Wire

/// `POST /oauth/token` (RFC 6749), `POST /oauth/revoke` (RFC 7009) and `POST /oauth/introspect` (RFC 7662). Any thread.
package struct OAuthEndpoints: Sendable {
    private let sessions: Sessions
    private let revocation: TokenRevocation
    private let judge: TokenJudge
    private let contracts: Set<ContractID>
    private let proofs: DeviceProofs

    /// `contracts`: those whose sessions are refreshed.
    package init(
        sessions: Sessions, revocation: TokenRevocation, judge: TokenJudge, proofs: DeviceProofs, refreshing contracts: Set<ContractID>
    ) {
        self.sessions = sessions
        self.contracts = contracts
        self.revocation = revocation
        self.judge = judge
        self.proofs = proofs
    }

    /// Refreshes the session of a refresh token of any mounted contract (RFC 6749 §6). Clients are public: a `client_id` and a `scope`
    /// have no meaning here, and sign-in is for the contracts.
    package func token(_ request: LocalRequest) async -> LocalResponse {
        await Self.respond(request) { form throws(Failure) in
            guard try form.required("grant_type") == "refresh_token" else {
                throw Failure(400, "unsupported_grant_type", "The only grant_type here is refresh_token.")
            }
            let token = try form.required("refresh_token")
            let (caller, proven) = try await caller(request, token, sessions.deviceKeyUse(ofRefreshToken: token))
            do throws(AccountError<RefreshTokenRefusal>) {
                return Self.tokens(try await sessions.refresh(token, ofOneOf: contracts, caller: caller).grant).giving(proven.nonce)
            } catch {
                switch error {
                case .refused(.invalid), .refused(.expired):
                    throw Failure(400, "invalid_grant", "The refresh token is invalid, spent or expired.").giving(proven.nonce)
                case .refused(.unproven(.missing)): throw refusal(proven.refusal ?? .fault(.missing))
                case .refused(.unproven(let fault)): throw refusal(.fault(fault))
                case .failed(let failure): throw Failure(failure, in: OAuthForm.dialect).giving(proven.nonce)
                }
            }
        }
    }

    /// The caller, with the key of which the request for `token` has a proof.
    private func caller(
        _ request: LocalRequest, _ token: String, _ use: DeviceKeyUse = .offered
    ) async throws(Failure) -> (Caller, ProvenKey) {
        var caller = Caller(request)
        let proven: ProvenKey
        do throws(DeviceProofs.Refusal) {
            proven = try await proofs.key(of: request, use) {
                if case .ofSession(let session) = judge.read(token) { return session.session.text }
                return sessions.session(ofOwnRefreshToken: token)?.text
            }
        } catch {
            throw refusal(error)
        }
        proven.identify(&caller)
        return (caller, proven)
    }

    /// RFC 9449 §5.
    private func refusal(_ refusal: DeviceProofs.Refusal) -> Failure {
        var failure = proofs.failure(refusal, at: .refresh(400), in: OAuthForm.dialect)
        if case .fault(let fault) = refusal { failure.code = fault == .nonce ? "use_dpop_nonce" : "invalid_dpop_proof" }
        return failure
    }

    /// RFC 6749 §5.1, and RFC 9449 §5 for a session that is bound to a key.
    private static func tokens(_ grant: SessionGrant) -> LocalResponse {
        let (tokens, type) = (grant.tokens, grant.session.deviceKey == nil ? "Bearer" : "DPoP" as StaticString)
        var response = LocalResponse.json { json in
            json.beginObject()
            json.field("access_token", tokens.access)
            json.field("token_type", type)
            json.field("expires_in", Int(tokens.accessSeconds))
            json.optional("refresh_token", tokens.refresh)
            json.endObject()
        }
        response.fields.append((name: "Pragma", value: "no-cache"))
        return response
    }

    /// Ends the session of a token. Its holder needs no other proof than that of its session's key, if there is one: apps have no secret.
    /// A `token_type_hint` is not needed, because the forms of the tokens differ.
    package func revoke(_ request: LocalRequest) async -> LocalResponse {
        await Self.respond(request) { form throws(Failure) in
            let outcome: Revocation
            let token = try form.required("token")
            let (caller, proven) = try await caller(request, token)
            do throws(AccountFailure) {
                outcome = try await revocation.revoke(token, caller: caller) { judge.read($0) }
            } catch {
                throw Failure(error, in: OAuthForm.dialect).giving(proven.nonce)
            }
            switch outcome {
            // A client cannot do more about a token that does not count (RFC 7009 §2.2).
            case .ended, .unknown:
                return .json {
                    $0.beginObject(); $0.endObject()
                }.giving(proven.nonce)
            case .unproven: throw refusal(.fault(caller.deviceKey == nil ? .missing : .otherKey))
            case .unsupported:
                throw Failure(400, "unsupported_token_type", "The token belongs to no session here that it could end.").giving(proven.nonce)
            }
        }
    }

    /// Tells an internal caller, which the gate has recognised, whether an access token counts, and of whom it is.
    package func introspect(_ request: LocalRequest) async -> LocalResponse {
        await Self.respond(request) { form throws(Failure) in
            let judged: JudgedToken?
            let token = try form.required("token")
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
