package import Wire

/// The request of a user who proved to receive mail or SMS at an address.
package enum ContactProof: Sendable, Equatable {
    /// Sign in to the account that has the address. `caller` is the account that is signed in already, if any.
    case signIn(caller: UUID?)
    /// Add the address to the caller's account, or sign in to the account that owns it.
    case link(caller: UUID)
    /// Move the address to the caller's account.
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

/// The effect of a proof.
package enum ContactVerdict: Equatable, Sendable {
    /// The address is this account's, and proven from now on.
    case confirm(UUID)
    /// The sign-up with the address is confirmed: password, names and metadata stay. Sessions, phone, passkeys and identities, which were
    /// added after it, are removed.
    case complete(UUID)
    /// The account becomes the prover's. First, all data and credentials of the user who created it are removed.
    case takeOver(UUID)
    /// The caller's account gets the address. The account that had it unproven loses it, with all data and credentials of the
    /// user who created it.
    case attach(to: UUID, releasing: UUID?)
    case refuse(ContactRefusal)
}

/// Why a proof has no effect.
package enum ContactRefusal: Equatable, Sendable {
    /// No account has the address.
    case noAccount
    /// Another account has proven the address.
    case taken
    /// The caller's account or session is gone.
    case callerGone
}

/// Proving an address makes its prover the owner: an account that was created with the address and never proved it is taken
/// over, unless the prover is signed in to it.
///
/// A code sent for a sign-up completes that sign-up, so the password just chosen stays. The purpose that the code was sent for
/// decides, not the one that it is tried as.
package enum ContactProofRule {
    /// `code` is the purpose that the proving code was sent for.
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
    /// The account that has `recipient`.
    package init(_ account: Account, _ recipient: Recipient) {
        user = account.id
        switch recipient {
        case .email: isConfirmed = account.emailConfirmedAt != nil
        // A phone is added to an account only with a proof.
        case .phone: isConfirmed = true
        }
    }
}

extension Account {
    /// Removes the data and credentials of the user who created the account. Its id, age and tier (which the operator sets)
    /// stay.
    package mutating func strip(at now: WallTime) {
        (hasPassword, passwordSetAt) = (false, nil)
        passkeys = 0
        carried = CarriedSignIns()
        // A credential: `dlauth` signs in by username.
        username = nil
        name = nil
        metadata = .empty
        dropPhone()
        updatedAt = now
    }

    /// Removes the phone, which is a credential.
    package mutating func dropPhone() {
        phone = nil
        phoneConfirmedAt = nil
        carried.phone = nil
    }

    /// The addresses to which codes and reset tokens for the account are sent.
    package var recipients: [Recipient] { (email.map { [.email($0)] } ?? []) + (phone.map { [.phone($0)] } ?? []) }
}

extension ContactVerdict {
    /// Whether the caller of `proof` has signed in again: by an address that the account had before. One that it only gets proves
    /// nothing about the account.
    package func isSignIn(by proof: ContactProof) -> Bool {
        switch (self, proof) {
        case (.confirm, .signIn), (.confirm, .link): true
        case (.confirm, .change), (.complete, _), (.takeOver, _), (.attach, _), (.refuse, _): false
        }
    }

    /// Why the proof has no effect; nil if it has one.
    package var refusal: ContactRefusal? {
        switch self {
        case .refuse(let refusal): refusal
        case .confirm, .complete, .takeOver, .attach: nil
        }
    }
}
