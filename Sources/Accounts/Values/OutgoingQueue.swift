package import Wire

/// Work elsewhere that a change leaves to the gateways: written in its transaction, and done after the commit by the gateway that claims it.
/// Account events are not among them: they are delivered in order, by one gateway for each subscriber.
package enum OutgoingQueue: String, Sendable {
    /// Mails that tell users of changes.
    case notices
    /// Apple's codes, which are exchanged, and tokens, which are revoked.
    case appleTokens = "apple_tokens"
}

/// The end of an entry of a queue.
package enum OutgoingResult: String, Sendable {
    case exchanged, revoked
    case givenUp = "given_up"
}

/// The entries of a queue that wait.
package struct OutgoingState: Sendable, Equatable {
    package let queue: OutgoingQueue
    package let waiting: Int64
    /// The oldest of them.
    package let since: WallTime?

    package init(_ queue: OutgoingQueue, waiting: Int64, since: WallTime?) {
        self.queue = queue
        self.waiting = waiting
        self.since = since
    }
}
