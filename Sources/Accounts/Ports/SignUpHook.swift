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
    /// The account is not opened. The text is the reason, which the answer shows to the user.
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

    /// The same where the caller is a guest that becomes an account by what it proves; nil for all others, of whom the hook is not asked.
    func admitGuest(_ caller: CallerSession?, _ signUp: SignUp) async throws(AccountFailure) -> Attributes? {
        guard signUpHook != nil, let user = caller?.user, let account = try await ask(await store.account(user)),
            GuestRule.isGuest(account, hasIdentities: try await ask(await !store.identities(of: user).isEmpty))
        else { return nil }
        return try await admit(signUp)
    }

    /// Gives a guest that has become an account the attributes of the hook's answer.
    func give(_ attributes: Attributes?, to user: UUID, _ audit: AuditContext) async throws(AccountFailure) {
        guard let attributes, attributes != .none else { return }
        let merged = try await ask(await store.change(.merge(attributes.json), of: user, audit))
        guard case .failure? = merged else { return }
        // Together they exceed `Attributes.largest`: the hook's replace the guest's.
        _ = try await ask(await store.change(.replace(attributes), of: user, audit))
    }
}
