package import Wire

/// What somebody who proved to receive mail or SMS at an address asks for.
package enum ContactProof: Sendable, Equatable {
    /// To be signed in to the account that has the address. The caller is who is signed in already, if anybody.
    case signIn(caller: UUID?)
    /// To have the address joined to the caller's account, or be signed in to the one that owns it.
    case link(caller: UUID)
    /// To have the address on the caller's account and no other.
    case change(caller: UUID)

    package var caller: UUID? {
        switch self {
        case .signIn(let caller): caller
        case .link(let caller), .change(let caller): caller
        }
    }
}

/// The account that has an address.
package struct ContactHolder: Sendable, Equatable {
    package let user: UUID
    package let isConfirmed: Bool

    package init(user: UUID, isConfirmed: Bool) {
        self.user = user
        self.isConfirmed = isConfirmed
    }
}

/// What follows from a proof.
package enum ContactVerdict: Equatable, Sendable {
    /// The address is this account's and now proven.
    case confirm(UUID)
    /// The sign-up with the address is confirmed as it stands: password, names and metadata stay. Sessions, phone and
    /// identities do not, for they came after it.
    case complete(UUID)
    /// The account changes hands: what its opener put there or could get in with dies first.
    case takeOver(UUID)
    /// The caller's account gets the address; the one that had it without a proof loses it, and all that its opener put
    /// there or could get in with.
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

/// A proof of an address gives ownership: an account that was opened with it and never proved it becomes the prover's, unless the
/// prover is signed in to it.
///
/// A code that was sent for a sign-up is the last step of that sign-up, not a proof by somebody else: the password just
/// chosen stays. It is the code that says so, not what it is tried as.
package enum ContactProofRule {
    /// `code` is what the code that proved the address was sent for.
    package static func verdict(_ proof: ContactProof, code: CodePurpose, holder: ContactHolder?) -> ContactVerdict {
        switch proof {
        case .signIn(let caller):
            guard let holder else { return .refuse(.noAccount) }
            if holder.isConfirmed || holder.user == caller { return .confirm(holder.user) }
            return code == .signUp ? .complete(holder.user) : .takeOver(holder.user)
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
        switch recipient {
        case .email: isConfirmed = account.emailConfirmedAt != nil
        // Phones join an account only with a proof.
        case .phone: isConfirmed = true
        }
    }
}

extension Account {
    /// Removes everything that the opener of the account put there or could sign in with. Its id and age stay, and its tier,
    /// which the operator sets.
    package mutating func strip(at now: WallTime) {
        hasPassword = false
        // `dlauth` signs in by it.
        username = nil
        name = nil
        metadata = .empty
        dropPhone()
        updatedAt = now
    }

    /// Removes the phone, by which one can sign in.
    package mutating func dropPhone() {
        phone = nil
        phoneConfirmedAt = nil
    }

    /// The addresses that codes and reset tokens for the account are sent to.
    package var recipients: [Recipient] { (email.map { [.email($0)] } ?? []) + (phone.map { [.phone($0)] } ?? []) }
}

extension ContactVerdict {
    /// Why the proof leads nowhere, if it does.
    package var refusal: ContactRefusal? {
        switch self {
        case .refuse(let refusal): refusal
        case .confirm, .complete, .takeOver, .attach: nil
        }
    }
}
