package import Credentials
package import Wire

/// The account that a subject of an outside issuer stands for.
package enum SubjectVerdict: Sendable, Hashable {
    case account(UUID)
    /// No account here has to do with it.
    case unknown
    /// Its tokens are refused: the account was deleted, its old sessions have ended, or it is not the issuer's.
    case refused
}

/// An account that a subject may stand for.
package struct SubjectHolder: Sendable, Equatable {
    package let user: UUID
    package let openedBy: ContractID?
    /// Whether its outside sessions have ended, or it is banned or closed.
    package let isDetached: Bool

    package init(user: UUID, openedBy: ContractID?, isDetached: Bool) {
        self.user = user
        self.openedBy = openedBy
        self.isDetached = isDetached
    }
}

/// Maps subjects of outside issuers whose trust line has `accounts=on` to accounts: by a linked identity, or by the account's id if
/// it was imported. An issuer never speaks for an account that was opened here.
package enum SubjectRule {
    /// `linked` is the account of the identity, `named` the account whose id the subject is; `wasDeleted`: an account that had
    /// the identity or the id was deleted.
    package static func verdict(linked: SubjectHolder?, named: SubjectHolder?, wasDeleted: Bool) -> SubjectVerdict {
        switch (linked, named) {
        case (nil, nil): wasDeleted ? .refused : .unknown
        case (let linked?, let named?) where linked.user != named.user: .refused
        case (let linked?, _): open(linked)
        case (nil, let named?): named.openedBy == nil ? open(named) : .refused
        }
    }

    private static func open(_ holder: SubjectHolder) -> SubjectVerdict {
        holder.isDetached ? .refused : .account(holder.user)
    }
}
