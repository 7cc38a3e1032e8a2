import Accounts
import Gate
import HTTP

/// Account calls of endpoints, with failures in one dialect. The rules are in `Accounts`.
protocol AccountCalls: Sendable {
    /// The envelope of its errors.
    var dialect: Dialect { get }

    func failure(_ failure: AccountFailure) -> Failure
}

extension AccountCalls {
    func failure(_ failure: AccountFailure) -> Failure { Failure(failure, in: dialect) }

    /// Makes an account call. `refused` translates its refusals.
    func call<Value, Refusal>(
        _ call: @autoclosure () async throws(AccountError<Refusal>) -> Value, refused: (Refusal) -> Failure
    ) async throws(Failure) -> Value {
        do throws(AccountError<Refusal>) {
            return try await call()
        } catch {
            switch error {
            case .refused(let refusal): throw refused(refusal)
            case .failed(let reason): throw failure(reason)
            }
        }
    }

    /// Makes an account call without refusals.
    func call<Value>(_ call: @autoclosure () async throws(AccountFailure) -> Value) async throws(Failure) -> Value {
        do throws(AccountFailure) { return try await call() } catch { throw failure(error) }
    }

    /// Ends the caller's session. An outside issuer's session ends with the bearer, and with the refresh token if the body has it
    /// under this name.
    func signOut(_ request: ContractRequest, refreshToken name: String, _ services: ContractServices) async throws(Failure) {
        switch try request.person() {
        case .session(let session): try await call(await services.sessions.signOut(session, caller: request.caller))
        case .outside(let token):
            let refresh = try request.text(name)
            try await call(await services.sessions.signOut(token, refreshToken: refresh, caller: request.caller))
        }
    }

    /// The caller's session, if it may change what signs in to its account: its user has signed in lately, or cannot sign in again.
    @discardableResult
    func requireRecentSignIn(_ request: ContractRequest, _ services: ContractServices) async throws(Failure) -> CallerSession {
        let session = try request.requiredSession()
        try await call(await services.sessions.requireRecentSignIn(session)) { (refused: RecencyRefusal) in Failure(refused, in: dialect) }
        return session
    }

    /// The caller's session, if it has proven the account's second factor lately, or there is none.
    @discardableResult
    func requireFactor(_ request: ContractRequest, _ services: ContractServices) async throws(Failure) -> CallerSession {
        let session = try request.requiredSession()
        try await call(await services.sessions.requireFactor(session)) { (refused: RecencyRefusal) in Failure(refused, in: dialect) }
        return session
    }

    /// A value parsed from a text; `fault` if the text is malformed.
    func parse<Value>(
        _ value: @autoclosure () throws(MalformedText) -> Value, or fault: @autoclosure () -> Failure
    ) throws(Failure) -> Value {
        do throws(MalformedText) { return try value() } catch { throw fault() }
    }
}
