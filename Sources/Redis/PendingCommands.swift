import Wire

/// A command without a reply.
struct PendingCommand: Equatable {
    enum Purpose: Equatable {
        /// Sent for a caller, who gets a result.
        case call(script: RedisScriptID?)
        /// Sent by the connection itself.
        case authenticate
        case selectDatabase
        case loadScript(RedisScriptID)
        case subscribe
        case role
        /// Before a call that a node of a cluster was redirected to by ASK.
        case asking
    }

    var purpose: Purpose
    /// The caller's name for it.
    var tag: UInt64
    /// First send time.
    var sentAt: MonotonicTime
    /// Its length in the output.
    var byteCount: Int
    /// The caller was told that it timed out.
    var isAbandoned = false
    /// Sent again: after its script was loaded, or to another node.
    var isRepeat = false

    /// Whether a caller still waits for it.
    var isAwaited: Bool {
        switch purpose {
        case .call: !isAbandoned
        case .authenticate, .selectDatabase, .loadScript, .subscribe, .role, .asking: false
        }
    }
}

/// The unanswered commands of a connection, in send order, which is also reply order.
///
/// A ring that grows up to its owner's bound and is then reused. All operations take constant time.
struct PendingCommands: ~Copyable {
    /// A command is at its sequence number modulo the size.
    private var ring = UniqueArray<PendingCommand>()
    private var first = 0
    private var end = 0
    /// No awaited command has a lower number. Two cursors, because a repeated command is older than those before it, while
    /// the repeated and the others are each in order of age.
    private var awaitedFrom = 0
    private var awaitedRepeatFrom = 0

    var count: Int { end - first }

    /// The command of the next reply; nil if none is pending.
    var next: PendingCommand? { count > 0 ? self[first] : nil }

    /// Send time of the oldest awaited command.
    mutating func oldestAwaited() -> MonotonicTime? { numberOfOldestAwaited().map { self[$0].sentAt } }

    mutating func append(_ command: PendingCommand) {
        if count == ring.count { grow() }
        self[end] = command
        end += 1
    }

    /// Removes the command of the next reply.
    mutating func removeNext() {
        precondition(count > 0)
        first += 1
    }

    /// Abandons the oldest awaited command if it was sent at or before `limit`; returns its tag.
    mutating func abandon(sentBy limit: MonotonicTime) -> UInt64? {
        guard let number = numberOfOldestAwaited(), self[number].sentAt <= limit else { return nil }
        self[number].isAbandoned = true
        return self[number].tag
    }

    private subscript(number: Int) -> PendingCommand {
        get { ring[number & (ring.count - 1)] }
        set { ring[number & (ring.count - 1)] = newValue }
    }

    private mutating func numberOfOldestAwaited() -> Int? {
        awaitedFrom = numberOfAwaited(from: awaitedFrom, isRepeat: false)
        awaitedRepeatFrom = numberOfAwaited(from: awaitedRepeatFrom, isRepeat: true)
        if awaitedFrom == end { return awaitedRepeatFrom == end ? nil : awaitedRepeatFrom }
        guard awaitedRepeatFrom < end else { return awaitedFrom }
        return self[awaitedFrom].sentAt <= self[awaitedRepeatFrom].sentAt ? awaitedFrom : awaitedRepeatFrom
    }

    private func numberOfAwaited(from number: Int, isRepeat: Bool) -> Int {
        var number = max(number, first)
        while number < end, self[number].isRepeat != isRepeat || !self[number].isAwaited { number += 1 }
        return number
    }

    private mutating func grow() {
        let size = max(64, ring.count * 2)
        let empty = PendingCommand(
            purpose: .call(script: nil), tag: 0, sentAt: MonotonicTime(nanoseconds: 0), byteCount: 0)
        var larger = UniqueArray(repeating: empty, count: size)
        for number in first..<end { larger[number & (size - 1)] = self[number] }
        ring = larger
    }
}
