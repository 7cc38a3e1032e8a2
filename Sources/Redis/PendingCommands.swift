import Wire

/// A command whose answer has not come.
struct PendingCommand: Equatable {
    enum Purpose: Equatable {
        /// A caller's, who is told what became of it.
        case call(script: RedisScriptID?)
        /// The connection's own.
        case authenticate
        case selectDatabase
        case loadScript(RedisScriptID)
        case subscribe
    }

    var purpose: Purpose
    /// The caller's name for it.
    var tag: UInt64
    /// When it was sent for the first time.
    var sentAt: MonotonicTime
    /// Its bytes in the output.
    var byteCount: Int
    /// The caller has been told already that no answer came in time.
    var isAbandoned = false
    /// Sent a second time, after the script that it calls was loaded again.
    var isRepeat = false

    /// Whether a caller waits for it.
    var isAwaited: Bool {
        switch purpose {
        case .call: !isAbandoned
        case .authenticate, .selectDatabase, .loadScript, .subscribe: false
        }
    }
}

/// The commands of a connection whose answers have not come, in the order of sending, which is that of the answers.
///
/// A ring that grows up to the bound that its owner keeps and is used again from then on; all is constant work.
struct PendingCommands: ~Copyable {
    /// Each command lies at its number, counted from the first one ever, modulo the size.
    private var ring = UniqueArray<PendingCommand>()
    private var first = 0
    private var end = 0
    /// Nobody waits for those before these numbers. Two, since a command that is sent again is older than what stands
    /// before it; among its like, each kind is in the order of age.
    private var awaitedFrom = 0
    private var awaitedRepeatFrom = 0

    var count: Int { end - first }

    /// The one that the next answer is for; nil if nothing was asked.
    var next: PendingCommand? { count > 0 ? self[first] : nil }

    /// When the oldest that a caller waits for was sent.
    mutating func oldestAwaited() -> MonotonicTime? { numberOfOldestAwaited().map { self[$0].sentAt } }

    mutating func append(_ command: PendingCommand) {
        if count == ring.count { grow() }
        self[end] = command
        end += 1
    }

    /// Takes out the one that the next answer is for.
    mutating func removeNext() {
        precondition(count > 0)
        first += 1
    }

    /// Abandons the oldest that a caller waits for, if it was sent at or before `limit`; answers its tag.
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
