package import Wire

/// An account: a person, or an app that has not said yet who uses it.
package struct Account: Sendable, Equatable {
    package let id: UUID
    /// The contract it was opened under; nil if the operator opened it.
    package let openedBy: ContractID?
    package let createdAt: WallTime
    /// When the account itself was last changed; signing in does not count.
    package var updatedAt: WallTime
    package var email: EmailAddress?
    /// When somebody last proved for the first time to receive mail there; nil while nobody has.
    package var emailConfirmedAt: WallTime?
    /// Phones join an account only with a proof.
    package var phone: PhoneNumber?
    package var phoneConfirmedAt: WallTime?
    package var username: Username?
    package var name: PersonName?
    package var hasPassword: Bool
    package var metadata: Metadata
    package var entitlement: Entitlement

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
