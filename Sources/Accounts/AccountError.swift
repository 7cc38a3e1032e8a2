/// The error of an account call: a refusal of that call's own, or a failure that any call may have.
///
/// Each service declares the refusals of its calls, so that a contract switches over what its calls can answer and nothing
/// else. Calls without refusals throw `AccountFailure` itself.
package enum AccountError<Refusal: Equatable & Sendable>: Error, Equatable {
    case refused(Refusal)
    case failed(AccountFailure)

    /// The value of `call`, whose failure is thrown as `failed`.
    static func failing<Value>(_ call: @autoclosure () async throws(AccountFailure) -> Value) async throws(Self) -> Value {
        do throws(AccountFailure) { return try await call() } catch { throw .failed(error) }
    }
}

/// Why an account call cannot be done now, whatever it asks for. Seconds to wait are 1 or more.
package enum AccountFailure: Error, Equatable, Sendable {
    /// A limit on guesses, messages or new accounts has no room.
    case tooManyAttempts(retryAfterSeconds: Int)
    /// The queue of passwords to be hashed is full or too slow, or there is no memory to hash one.
    case overloaded(retryAfterSeconds: Int)
    /// The store is away, or does not answer in time.
    case unavailable(retryAfterSeconds: Int)
    /// The store or the signing key is broken. The reason has been logged.
    case broken
    /// The account may not sign in.
    case banned(Ban)
    /// The sign-up hook rejected the account. The text is its reason, which the answer shows to the user.
    case rejected(String)
}
