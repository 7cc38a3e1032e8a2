/// A message to one person, as a value: the courier finds the words.
package struct Message: Sendable, Equatable {
    /// What it brings.
    package enum Content: Sendable, Equatable {
        /// Six digits, good for so many seconds.
        case code(String, CodePurpose, lifetimeSeconds: Int64)
        /// A token that lets the receiver choose a new password, good for so many seconds.
        case passwordReset(token: String, lifetimeSeconds: Int64)
    }

    package let recipient: Recipient
    package let content: Content

    package init(to recipient: Recipient, _ content: Content) {
        self.recipient = recipient
        self.content = content
    }
}

/// Brings messages to people by mail and SMS.
package protocol Courier: Sendable {
    /// Takes a message over and returns at once: sending and trying again happen later, and what is lost in the end is
    /// told by a line in the log.
    func send(_ message: Message)
}
