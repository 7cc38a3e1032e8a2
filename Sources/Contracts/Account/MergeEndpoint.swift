import Accounts
import Credentials
import Gate
import HTTP
import Wire

extension AccountEndpoints {
    /// Merges the guest of another token into the caller's account.
    func merge() async throws(Failure) -> LocalResponse {
        let person = try request.person()
        let token = try request.required("guest_token")
        let from = try await call(
            await life.merges.merge(
                token, into: person.user, session: person.session, caller: request.caller, read: services.judge.read)
        ) { (refusal: MergeRefusal) in
            switch refusal {
            case .invalidToken: .malformed("guest_token is no valid token of an open session", in: dialect)
            case .notGuest: Failure(409, "NOT_A_GUEST", "The other account is no guest: something else signs in to it, or it is this one.")
            case .unproven: services.unproven(.missing, request, at: .refresh(401))
            case .noFactor: Failure(.noFactor(maxAge: KeptFactor.recentSeconds), in: dialect)
            case .sessionEnded: Failure(.unauthorized(.revoked), in: dialect)
            }
        }
        return .json { json in
            json.beginObject()
            json.field("id", person.user.text)
            json.field("merged_from", from.text)
            json.endObject()
        }
    }
}

extension ContractRequest.Person {
    /// nil with the token of an outside issuer.
    fileprivate var session: UUID? {
        switch self {
        case .session(let session): session.session
        case .outside: nil
        }
    }
}

extension ContractServices {
    /// The session of a bearer at an endpoint that needs none; nil for a token that does not count, such as an expired one, which clients send
    /// along. The proof of a key that it is bound to is left to the caller.
    func bearer(of request: ContractRequest) -> CallerSession? {
        let words = (request.sent.value(of: "authorization") ?? "").split(separator: " ", maxSplits: 1)
        guard words.count == 2, ["bearer", "dpop"].contains(words[0].lowercased()),
            case .ofSession(let session) = judge.read(String(words[1]))
        else { return nil }
        return session
    }

    /// The same where the caller may be a guest who signs in for the first time. Throws if the session is bound to a key of which there is no
    /// proof, or if it is a guest's that has a second factor and has not proven it lately.
    func guest(of request: ContractRequest, at use: ProofUse) async throws(Failure) -> CallerSession? {
        guard let session = bearer(of: request) else { return nil }
        let isAccepted: Bool
        do throws(AccountFailure) { isAccepted = try await sessions.accepts(request.caller.deviceKey, for: session.session) } catch {
            throw Failure(error, in: request.dialect)
        }
        guard isAccepted else { throw unproven(request.caller.deviceKey == nil ? .missing : .otherKey, request, at: use) }
        do throws(AccountError<RecencyRefusal>) { try await sessions.requireFactor(ofGuest: session.session) } catch {
            switch error {
            case .refused(.sessionEnded): return nil
            case .refused(let refusal): throw Failure(refusal, in: request.dialect)
            case .failed(let failure): throw Failure(failure, in: request.dialect)
            }
        }
        return session
    }
}
