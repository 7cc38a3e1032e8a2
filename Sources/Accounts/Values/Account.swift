package import Credentials
package import Wire

/// An account: a person, or an installation of an app without a known user.
package struct Account: Sendable, Equatable {
    package let id: UUID
    /// The contract that it was created under; nil if the operator created it.
    package let openedBy: ContractID?
    package let createdAt: WallTime
    /// The last change of the account itself; signing in is none.
    package var updatedAt: WallTime
    package var email: EmailAddress? { didSet { if email?.key != oldValue?.key { mailStoppedAt = nil } } }
    /// When the present owner first proved the email; nil if it is unproven.
    package var emailConfirmedAt: WallTime?
    /// Phones join an account only with a proof.
    package var phone: PhoneNumber?
    package var phoneConfirmedAt: WallTime?
    package var username: Username?
    package var name: PersonName?
    package var hasPassword: Bool
    /// nil if it was set before this was kept.
    package var passwordSetAt: WallTime?
    package var metadata: Metadata
    package var entitlement: Entitlement
    package var carried = CarriedSignIns()
    package var attributes = Attributes.none
    /// Also one that is over.
    package var ban: Ban?
    /// When an account that its user closed is erased; nil for an open one. A sign-in before that opens it again.
    package var erasedAt: WallTime?
    /// The merges into it that are announced to services.
    package var merges: [Merge] = []
    /// The language of mails to it, as a BCP 47 tag; nil if the client named none.
    package var language: String?
    /// Since when its provider forwards no mail to its relay address; nil if it does.
    package var mailStoppedAt: WallTime?
    /// How many passkeys it has.
    package var passkeys: Int64 = 0

    package init(
        id: UUID, openedBy: ContractID?, createdAt: WallTime, updatedAt: WallTime, email: EmailAddress? = nil,
        emailConfirmedAt: WallTime? = nil, phone: PhoneNumber? = nil, phoneConfirmedAt: WallTime? = nil,
        username: Username? = nil, name: PersonName? = nil, hasPassword: Bool = false, metadata: Metadata = .empty,
        entitlement: Entitlement = .none
    ) {
        self.id = id
        self.openedBy = openedBy
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.email = email
        self.emailConfirmedAt = emailConfirmedAt
        self.phone = phone
        self.phoneConfirmedAt = phoneConfirmedAt
        self.username = username
        self.name = name
        self.hasPassword = hasPassword
        self.metadata = metadata
        self.entitlement = entitlement
    }
}

extension Account {
    /// An account without sign-in, which the operator makes for a subject of an outside issuer by setting its tier.
    package init(bare id: UUID, tier: String?, until: WallTime?, now: WallTime) {
        self.init(
            id: id, openedBy: nil, createdAt: now, updatedAt: now, entitlement: Entitlement(tier: tier, until: until, version: 1))
    }
}
