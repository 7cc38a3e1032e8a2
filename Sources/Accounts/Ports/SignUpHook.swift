package import Credentials
package import Wire

/// A sign-up that the operator's hook is asked about.
package struct SignUp: Sendable {
    package let contract: ContractID
    package var email: EmailAddress?
    package var username: Username?
    package var metadata = Metadata.empty
    package let address: IPAddress?

    package init(_ contract: ContractID, email: EmailAddress? = nil, address: IPAddress?) {
        self.contract = contract
        self.email = email
        self.address = address
    }
}

/// The hook's answer.
package enum SignUpAnswer: Sendable, Equatable {
    /// The account is opened with these attributes.
    case admitted(Attributes)
    /// It is not, for a reason that the user is told.
    case rejected(String)
    /// The hook did not answer, and then no account is opened.
    case unavailable
}

/// Asks the hook. Never called in a transaction of the store.
package typealias SignUpHook = @Sendable (SignUp) async -> SignUpAnswer

extension AccountContext {
    /// The attributes that the hook gives the account; none without a hook.
    func admit(_ signUp: SignUp) async throws(AccountFailure) -> Attributes {
        guard let signUpHook else { return .none }
        switch await signUpHook(signUp) {
        case .admitted(let attributes): return attributes
        case .rejected(let sentence): throw .rejected(sentence)
        case .unavailable: throw .unavailable(retryAfterSeconds: 1)
        }
    }
}
