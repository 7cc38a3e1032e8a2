package import Wire

/// What somebody who proved to receive mail or SMS at an address asks for.
package enum ContactProof: Sendable, Equatable {
    /// To complete the sign-up of the account that was opened with the address under this contract.
    case completeSignUp(ContractID)
    /// To be signed in to the account that owns the address.
    case signIn
    /// To have the address joined to the caller's account, or be signed in to the one that owns it.
    case link(caller: UUID)
    /// To have the address on the caller's account and no other.
    case change(caller: UUID)

    package var caller: UUID? {
        switch self {
        case .completeSignUp, .signIn: nil
        case .link(let caller), .change(let caller): caller
        }
    }
}

/// The account that has an address.
package struct ContactHolder: Sendable, Equatable {
    package let user: UUID
    package let isConfirmed: Bool
    package let openedBy: ContractID?

    package init(user: UUID, isConfirmed: Bool, openedBy: ContractID?) {
        self.user = user
        self.isConfirmed = isConfirmed
        self.openedBy = openedBy
    }
}

/// What follows from a proof.
package enum ContactVerdict: Equatable, Sendable {
    /// The address is this account's and now proven.
    case confirm(UUID)
    /// The account changes hands: what its opener could get in with dies first.
    case takeOver(UUID)
    /// The caller's account gets the address; the one that had it without a proof loses it, and all that its opener
    /// could get in with.
    case attach(to: UUID, releasing: UUID?)
    case refuse(ContactRefusal)
}

/// Why a proof leads nowhere.
package enum ContactRefusal: Equatable, Sendable {
    /// No account has the address.
    case noAccount
    /// Another account proved before to own the address.
    case taken
    /// The caller's account, or the session behind the call, is gone.
    case callerGone
}

/// Whoever proves an address owns it: an account that was opened with it and never proved it is the prover's.
///
/// A code of the contract that the account was opened under is not that kind of proof by another: there it is the last
/// step of the sign-up, and the password just chosen stays.
package enum ContactProofRule {
    package static func verdict(_ proof: ContactProof, holder: ContactHolder?) -> ContactVerdict {
        switch proof {
        case .completeSignUp(let contract):
            guard let holder else { return .refuse(.noAccount) }
            return holder.isConfirmed || holder.openedBy == contract ? .confirm(holder.user) : .takeOver(holder.user)
        case .signIn:
            guard let holder else { return .refuse(.noAccount) }
            return holder.isConfirmed ? .confirm(holder.user) : .takeOver(holder.user)
        case .link(let caller):
            guard let holder else { return .attach(to: caller, releasing: nil) }
            if holder.user == caller || holder.isConfirmed { return .confirm(holder.user) }
            return .takeOver(holder.user)
        case .change(let caller):
            guard let holder else { return .attach(to: caller, releasing: nil) }
            if holder.user == caller { return .confirm(caller) }
            return holder.isConfirmed ? .refuse(.taken) : .attach(to: caller, releasing: holder.user)
        }
    }
}

extension ContactHolder {
    /// What the rule must know of the account that has `recipient`.
    package init(_ account: Account, _ recipient: Recipient) {
        user = account.id
        openedBy = account.openedBy
        switch recipient {
        case .email: isConfirmed = account.emailConfirmedAt != nil
        case .phone: isConfirmed = account.phoneConfirmedAt != nil
        }
    }
}

extension ContactVerdict {
    /// Why the proof leads nowhere, if it does.
    package var refusal: ContactRefusal? {
        switch self {
        case .refuse(let refusal): refusal
        case .confirm, .takeOver, .attach: nil
        }
    }
}
