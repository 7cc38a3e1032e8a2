package import Wire

/// A message to one recipient; the courier renders its text.
package struct Message: Sendable, Equatable {
    /// The secret that a message carries.
    package enum Content: Sendable, Equatable {
        /// Six digits, and their lifetime in seconds.
        case code(String, CodePurpose, lifetimeSeconds: Int64)
        /// A token that lets the receiver choose a new password, and its lifetime in seconds.
        case passwordReset(token: String, lifetimeSeconds: Int64)
        /// A change of the account, with the token of the way back, if there is one.
        case notice(Notice, wayBack: String?)
    }

    package let recipient: Recipient
    package let content: Content
    /// The languages of its reader, in the form of `Accept-Language`; nil if they are not known.
    package let languages: String?

    package init(to recipient: Recipient, _ content: Content, languages: String? = nil) {
        self.recipient = recipient
        self.content = content
        self.languages = languages
    }
}

/// Sends messages by mail and SMS.
package protocol Courier: Sendable {
    /// Queues a message and returns at once. It is sent and retried later; a message that is given up is logged. `address` is the
    /// client that asked for it: clients take turns, so that one that asks for many delays its own.
    func send(_ message: Message, for address: IPAddress?)
}

/// A courier that remembers which notices need no further attempt.
package protocol NoticeCourier: Courier {
    /// Those that were sent, or refused for good.
    var settledNotices: Set<UUID> { get }
    /// Forgets them, once the store knows.
    func forget(_ settled: Set<UUID>)
}
