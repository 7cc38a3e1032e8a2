package import Wire

/// What people type to say who they are.
package enum SignInName: Sendable, Hashable {
    case email(EmailAddress)
    case username(Username)

    /// By which it is found.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .username(let name): name.key
        }
    }
}

/// The account that somebody guesses at, as they name it.
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

    /// What guesses are counted by.
    package var key: String {
        switch self {
        case .email(let email): email.key
        case .username(let username): username.key
        case .phone(let phone): phone.text
        }
    }
}

/// What a password is compared with.
package struct Credential: Sendable, Equatable {
    package let user: UUID
    /// As it is stored: `PasswordHash` reads it.
    package let hash: String
    package let isEmailConfirmed: Bool

    package init(user: UUID, hash: String, isEmailConfirmed: Bool) {
        self.user = user
        self.hash = hash
        self.isEmailConfirmed = isEmailConfirmed
    }
}

/// An account to be opened.
package struct NewAccount: Sendable {
    package let id: UUID
    package let openedBy: ContractID?
    package var email: EmailAddress?
    package var username: Username?
    package var passwordHash: String?
    package var metadata: Metadata
    /// Whether the email is known to be the owner's from the start.
    package var isEmailConfirmed = false
    /// Whether an older sign-up with the email that never got anywhere gives way: see `SignUpRule`.
    package var mayStartAnew = false
    /// What was set of a tier; nil for the one that everyone has.
    package var tier: String?
    package var tierUntil: WallTime?

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

    /// The account as it begins.
    package func account(now: WallTime) -> Account {
        Account(
            id: id, openedBy: openedBy, createdAt: now, updatedAt: now, email: email,
            emailConfirmedAt: isEmailConfirmed && email != nil ? now : nil, username: username,
            hasPassword: passwordHash != nil, metadata: metadata,
            entitlement: tier.map { Entitlement(tier: $0, until: tierUntil, version: 1) } ?? .none)
    }
}

/// What came of opening an account.
package enum Opening: Sendable, Equatable {
    case opened(Account, Session?)
    /// Another account has the email.
    case emailTaken
}

/// That a password matched this stored hash.
package struct PasswordProof: Sendable, Equatable {
    package let hash: String
    /// What to store in its place.
    package let replacement: String?

    package init(hash: String, replacement: String? = nil) {
        self.hash = hash
        self.replacement = replacement
    }
}

/// An account somebody is signed in to.
package struct SignIn: Sendable, Equatable {
    package var account: Account
    /// nil where none was asked for.
    package var session: Session?
    /// Whether the account was opened by this.
    package var isNew = false
    /// Sessions that ended on the way, to be told to all gateways.
    package var ended: [EndedSession] = []

    package init(account: Account, session: Session?, isNew: Bool = false, ended: [EndedSession] = []) {
        self.account = account
        self.session = session
        self.isNew = isNew
        self.ended = ended
    }
}

/// A refresh token that holds.
package struct RefreshRequest: Sendable, Equatable {
    package let session: UUID
    /// The contract at whose endpoint it came in.
    package let contract: ContractID
    /// nil for a token that does not rotate.
    package let counter: UInt64?
    package let rule: RefreshRule

    package init(session: UUID, contract: ContractID, counter: UInt64?, rule: RefreshRule) {
        self.session = session
        self.contract = contract
        self.counter = counter
        self.rule = rule
    }
}

/// What came of a refresh.
package enum RefreshOutcome: Sendable, Equatable {
    /// The session's current pair is to be handed out; the verdict says how it came to be current.
    case issued(SignIn, RefreshVerdict)
    case refused(RefreshRefusal)
    /// The session has been ended.
    case reused(EndedSession)
}

/// That the access token of this place in a session's chain was seen on a request.
package struct ConfirmedPair: Sendable, Hashable {
    package let session: UUID
    package let counter: UInt64

    package init(session: UUID, counter: UInt64) {
        self.session = session
        self.counter = counter
    }
}

/// A try at a code.
package struct CodeRedemption: Sendable {
    package let recipient: Recipient
    package let guess: CodeGuess
    package let proof: ContactProof
    /// The caller's session, which stays if the proof leads to the caller's own account.
    package let callerSession: UUID?
    /// What is opened otherwise.
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

/// What came of a try at a code.
package enum Redemption: Sendable, Equatable {
    case proven(SignIn)
    case wrongCode
    /// The code was right, and is used up.
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

/// What an account may act as: `user` and its own id, or what the operator granted.
package struct ActorName: Sendable, Hashable {
    package let type: String
    package let id: String

    /// Each 1 to 128 bytes without control characters or space around them: they go into tokens and headers.
    package init(type: String, id: String) throws(AccountError) {
        guard Self.isFit(type), Self.isFit(id) else { throw .malformedActor }
        self.init(storedType: type, id: id)
    }

    /// An actor that was fit when it was stored.
    package init(storedType type: String, id: String) {
        self.type = type
        self.id = id
    }

    private static func isFit(_ text: String) -> Bool {
        guard case .success(let clean) = PlainText.clean(text, limit: 128) else { return false }
        return clean == text
    }
}

/// What a provider calls the owner of an account.
package struct LinkedIdentity: Sendable, Hashable {
    package let provider: Provider
    package let subject: String
    package let linkedAt: WallTime

    package init(provider: Provider, subject: String, linkedAt: WallTime) {
        self.provider = provider
        self.subject = subject
        self.linkedAt = linkedAt
    }
}
