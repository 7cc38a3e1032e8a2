internal import Credentials
package import Wire

/// The sign-ins that an account's credentials carry. A session that sets a credential has shown no other one for it, so a sign-in by that
/// credential counts from the sign-in of the session: a thief of the session gets no newer one. A password that an email resets, and an identity
/// that an email links, carry the email's.
package struct CarriedSignIns: Sendable, Equatable {
    /// Stands for a session of which it is not known when its user signed in.
    static let unknown = WallTime(microseconds: 0)

    /// nil for a credential that a session has not set.
    package var password: WallTime?
    package var email: WallTime?
    package var phone: WallTime?

    package init(password: WallTime? = nil, email: WallTime? = nil, phone: WallTime? = nil) {
        self.password = password
        self.email = email
        self.phone = phone
    }

    /// The sign-in that the address of a recipient carries.
    package subscript(recipient: Recipient) -> WallTime? {
        get {
            switch recipient {
            case .email: email
            case .phone: phone
            }
        }
        set {
            switch recipient {
            case .email: email = newValue
            case .phone: phone = newValue
            }
        }
    }
}

extension AuditContext {
    /// `carried`, the sign-in of a credential that was set at `time`; nil once the credential is a way to sign in like any other.
    package func counted(_ carried: WallTime?, since time: WallTime?) -> WallTime? {
        time.map { now >= $0.advanced(seconds: contactAge) } ?? false ? nil : carried
    }

    /// The sign-in that a proof of an address of the account carries.
    package func carried(by recipient: Recipient, of account: Account) -> WallTime? {
        let provenAt = if case .email = recipient { account.emailConfirmedAt } else { account.phoneConfirmedAt }
        return counted(account.carried[recipient], since: provenAt)
    }

    /// The sign-in that the password of the account carries. One that is older than its time counts from the account's last change.
    package func carriedByPassword(of account: Account) -> WallTime? {
        counted(account.carried.password, since: account.passwordSetAt ?? account.updatedAt)
    }
}

extension Session {
    /// The sign-in that a credential carries if this session sets it.
    package var carried: WallTime { signedInAt ?? CarriedSignIns.unknown }

    /// The sign-in that a passkey carries if this session adds it; nil if its challenge was issued after a recent sign-in.
    package func carriedByPasskey(at now: WallTime) -> WallTime? {
        isRecent(Self.recentSeconds + PasskeyChallenges.lifetimeSeconds, at: now) ? nil : carried
    }

    /// When its user has signed in once they prove a credential again.
    private func signInRenewed(by carried: WallTime?, at now: WallTime) -> WallTime? {
        guard let carried else { return now }
        return carried == CarriedSignIns.unknown ? signedInAt : max(signedInAt ?? carried, min(carried, now))
    }

    /// Its user proves a credential again, and gets new tokens as by a refresh. Returns `idleSeconds` if they extend the session.
    package mutating func renewSignIn(by carried: WallTime?, at now: WallTime, idleSeconds: Int64) -> Int64? {
        signedInAt = signInRenewed(by: carried, at: now)
        lastUsedAt = now
        guard contract.sessionPolicy.refresh == .rotating else { return nil }
        idleDeadline = now.advanced(seconds: idleSeconds)
        return idleSeconds
    }
}

extension NewSession {
    /// The session as a sign-in by a credential opens it. One that carries a sign-in proves no second factor.
    package func signed(by carried: WallTime?) -> NewSession {
        guard let carried else { return self }
        var session = self
        session.factorAt = nil
        switch signIn {
        case _ where carried == CarriedSignIns.unknown: session.signIn = .unknown
        case .opening: session.signIn = .at(carried)
        case .at(let time): session.signIn = .at(min(time, carried))
        case .unknown: break
        }
        return session
    }
}
