package import Credentials
package import Wire

/// The name that a person signs in with.
package enum SignInName: Sendable, Hashable {
    case email(EmailAddress)
    case username(Username)

    /// The key by which accounts are found.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .username(let name): name.key
        }
    }
}

/// The account that a guess is made at, as the client names it.
package enum GuessTarget: Sendable, Hashable {
    case email(EmailAddress)
    case username(Username)
    case phone(PhoneNumber)

    package init(_ name: SignInName) {
        switch name {
        case .email(let email): self = .email(email)
        case .username(let username): self = .username(username)
        }
    }

    package init(_ recipient: Recipient) {
        switch recipient {
        case .email(let email): self = .email(email)
        case .phone(let phone): self = .phone(phone)
        }
    }

    /// The key by which guesses are counted.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .username(let username): username.key
        case .phone(let phone): phone.text
        }
    }
}

/// The stored password of an account.
package struct Credential: Sendable, Equatable {
    package let user: UUID
    /// In the text form of `PasswordHash`.
    package let hash: String
    package let isEmailConfirmed: Bool
    /// The account's email, confirmed or not.
    package let email: EmailAddress?

    package init(user: UUID, hash: String, isEmailConfirmed: Bool, email: EmailAddress? = nil) {
        self.user = user
        self.hash = hash
        self.isEmailConfirmed = isEmailConfirmed
        self.email = email
    }
}

/// An account to be created.
package struct NewAccount: Sendable {
    package let id: UUID
    package let openedBy: ContractID?
    package var email: EmailAddress?
    package var username: Username?
    package var passwordHash: String?
    package var metadata: Metadata
    /// Whether the email counts as proven from the start.
    package var isEmailConfirmed = false
    /// Whether it may replace an unfinished sign-up with the same email (`SignUpRule`).
    package var replacesUnfinishedSignUp = false
    /// The session of the caller who signs up: the account of a guest takes what this one has, and keeps its id.
    package var guest: CallerSession?
    /// nil for the lowest tier.
    package var tier: String?
    package var tierUntil: WallTime?
    package var attributes = Attributes.none

    package init(
        id: UUID, openedBy: ContractID?, email: EmailAddress? = nil, username: Username? = nil,
        passwordHash: String? = nil, metadata: Metadata = .empty
    ) {
        self.id = id
        self.openedBy = openedBy
        self.email = email
        self.username = username
        self.passwordHash = passwordHash
        self.metadata = metadata
    }

    /// The account at its creation.
    package func account(now: WallTime) -> Account {
        var account = Account(
            id: id, openedBy: openedBy, createdAt: now, updatedAt: now, email: email,
            emailConfirmedAt: isEmailConfirmed && email != nil ? now : nil, username: username,
            hasPassword: passwordHash != nil, metadata: metadata,
            entitlement: tier.map { Entitlement(tier: $0, until: tierUntil, version: 1) } ?? .none)
        account.attributes = attributes
        return account
    }
}

/// The outcome of creating an account.
package enum Opening: Sendable, Equatable {
    case opened(Account, Session?)
    /// Another account has the email.
    case emailTaken
}

/// A password that matched, by the stored hash that it matched.
package struct PasswordProof: Sendable, Equatable {
    package let hash: String
    /// The hash to store instead; nil to keep it.
    package let replacement: String?

    package init(hash: String, replacement: String? = nil) {
        self.hash = hash
        self.replacement = replacement
    }
}

/// A signed-in account.
package struct SignIn: Sendable, Equatable {
    package var account: Account
    /// nil if none was requested.
    package var session: Session?
    /// Whether the account was created by this call.
    package var isNew = false
    /// Sessions that this call ended, to be announced to gateways.
    package var ended: [EndedSession] = []

    package init(account: Account, session: Session?, isNew: Bool = false, ended: [EndedSession] = []) {
        self.account = account
        self.session = session
        self.isNew = isNew
        self.ended = ended
    }
}

/// A refresh by a token whose signature is valid.
package struct RefreshRequest: Sendable, Equatable {
    package let session: UUID
    /// The contract at whose endpoint it was sent.
    package let contract: ContractID
    /// The token's counter; nil for a token that does not rotate.
    package let counter: UInt64?
    package let rule: RefreshRule
    /// By how many seconds a rotation extends the session.
    package let idleSeconds: Int64
    /// As in `Session`; nil leaves that as it is.
    package var deviceName: String?
    /// The key of which it has a proof.
    package var deviceKey: KeyThumbprint?
    package var keyUse = DeviceKeyUse.offered
    /// As in `Caller`: such a refusal writes no audit event and sends no notice.
    package var hasUnjudgedProof = false

    package init(session: UUID, contract: ContractID, counter: UInt64?, rule: RefreshRule, idleSeconds: Int64? = nil) {
        self.session = session
        self.contract = contract
        self.counter = counter
        self.rule = rule
        self.idleSeconds = idleSeconds ?? contract.sessionPolicy.idleSeconds
    }
}

/// The outcome of a refresh.
package enum RefreshOutcome: Sendable, Equatable {
    /// The session's current pair is handed out, for the reason of the verdict.
    case issued(SignIn, RefreshVerdict)
    case refused(RefreshRefusal)
    /// A spent token came back: the session was ended.
    case reused(EndedSession)
}

/// A pair of a session whose access token was seen on a request, so it was delivered.
package struct ConfirmedPair: Sendable, Hashable {
    package let session: UUID
    package let counter: UInt64

    package init(session: UUID, counter: UInt64) {
        self.session = session
        self.counter = counter
    }
}

/// An attempt to redeem a code.
package struct CodeRedemption: Sendable {
    package let recipient: Recipient
    package let guess: CodeGuess
    package let proof: ContactProof
    /// The caller's session, which stays if the proof leads to the caller's own account.
    package let callerSession: UUID?
    /// The session that is opened otherwise.
    package let session: NewSession

    package init(
        recipient: Recipient, guess: CodeGuess, proof: ContactProof, callerSession: UUID?, session: NewSession
    ) {
        self.recipient = recipient
        self.guess = guess
        self.proof = proof
        self.callerSession = callerSession
        self.session = session
    }
}

/// The outcome of redeeming a code.
package enum Redemption: Sendable, Equatable {
    case proven(SignIn)
    case wrongCode
    /// The code was right, and is spent.
    case refused(ContactRefusal)
}

/// A reset token that was sent.
package struct PendingReset: Sendable, Equatable {
    package static let lifetimeSeconds: Int64 = 3_600

    /// The token's keyed digest.
    package let digest: [UInt8]
    package let email: EmailAddress
    package let expiresAt: WallTime

    package init(digest: [UInt8], email: EmailAddress, expiresAt: WallTime) {
        self.digest = digest
        self.email = email
        self.expiresAt = expiresAt
    }
}

/// An actor that an account may act as: `user` with its own id, or one that the operator granted.
package struct ActorName: Sendable, Hashable {
    package let type: String
    package let id: String

    /// Throws unless each is 1 to 128 bytes without control characters or surrounding space: they go into tokens and headers.
    package init(type: String, id: String) throws(MalformedText) {
        guard try PlainText.clean(type, limit: 128) == type, try PlainText.clean(id, limit: 128) == id else { throw MalformedText() }
        self.init(storedType: type, id: id)
    }

    /// An actor from the store; not checked again.
    package init(storedType type: String, id: String) {
        self.type = type
        self.id = id
    }
}

/// An identity that is linked to an account.
package struct LinkedIdentity: Sendable, Hashable {
    package let key: IdentityKey
    package let linkedAt: WallTime

    package init(key: IdentityKey, linkedAt: WallTime) {
        self.key = key
        self.linkedAt = linkedAt
    }
}
