import Gate
import HTTP
import Transport
import Wire

/// News that the process may have missed while its threads did not run, or while another gateway acted.
package enum MissedNews: Sendable {
    /// Changes in the accounts: sessions that have ended, tiers, subjects.
    case changes
    /// The gateway's own signing keys, which gateways share.
    case ownKeys
}

/// One kind of missed news: the question for it, and the requests that wait for the answer to be decided about. One question at a time.
struct CatchUp {
    /// Milliseconds after an answer in which a token with an unknown key starts no further question.
    static let pause: UInt64 = 1_000

    private(set) var isUnderWay = false
    /// Whether more may have been missed since the question under way began. It is asked once more then, and no further time, as those who
    /// wait would wait for ever.
    private var isOvertaken = false
    private var isRepeated = false
    private var number: UInt64 = 0
    private var endedAt: MonotonicTime?
    var waiting: [Handle<Exchange>] = []

    /// Whether the latest answer is older than `pause`.
    func isDue(at now: MonotonicTime) -> Bool { endedAt.map { now >= $0.advanced(milliseconds: Self.pause) } ?? true }

    /// Begins a question; returns its number.
    mutating func begin() -> UInt64 {
        (isUnderWay, isOvertaken, isRepeated) = (true, false, false)
        number += 1
        return number
    }

    /// News may have been missed again. Returns the number of the question to ask now, if one is.
    mutating func missed() -> UInt64? {
        guard isUnderWay else { return begin() }
        isOvertaken = true
        return nil
    }

    /// The question of this number is answered: returns the number of the one to ask again, if it was overtaken.
    mutating func repeats(_ answered: UInt64) -> UInt64? {
        guard isUnderWay, answered == number, isOvertaken, !isRepeated else { return nil }
        (isOvertaken, isRepeated) = (false, true)
        number += 1
        return number
    }

    /// The question of this number is answered: returns the requests that waited. Of two answers the second does nothing.
    mutating func end(_ answered: UInt64, at now: MonotonicTime) -> [Handle<Exchange>] {
        guard isUnderWay, answered == number else { return [] }
        (isUnderWay, endedAt) = (false, now)
        defer { waiting.removeAll() }
        return waiting
    }
}

extension Worker {
    /// A turn counts as late if it begins so many milliseconds after the longest wait behind the one before: the process was stopped, or
    /// that turn had much to do. Which of them it was shows the age of the last reading of the change log.
    static var maxDelay: UInt64 { 250 }

    /// The loop did not run for a while, and neither did the reader of the change log: requests are decided about once that has caught up.
    mutating func turnIsLate() {
        if services.catchUp != nil, let number = missedChanges.missed() { ask(.changes, number) }
    }

    /// Whether the request waits for the changes that the process may have missed.
    mutating func waitsForChanges(_ exchange: ExchangeIndex) -> Bool {
        guard missedChanges.isUnderWay else { return false }
        exchanges[exchange].wait(for: .entitlement)
        missedChanges.waiting.append(exchanges.handle(exchange))
        return true
    }

    /// Whether the request, whose token names a key of this issuer that is not known, waits until the keys that gateways share are read.
    mutating func waitsForKeys(_ exchange: ExchangeIndex, of issuer: Int) -> Bool {
        guard services.catchUp != nil, admission.isOwn(issuer: issuer) else { return false }
        if !missedKeys.isUnderWay {
            // The keys were read a moment ago and have none for it: made-up tokens cost no further reading.
            guard missedKeys.isDue(at: now.monotonic) else { return false }
            ask(.ownKeys, missedKeys.begin())
        }
        exchanges[exchange].wait(for: .entitlement)
        missedKeys.waiting.append(exchanges.handle(exchange))
        return true
    }

    private func ask(_ news: MissedNews, _ number: UInt64) {
        let mailbox = mailbox
        services.catchUp?(news) { mailbox.post(.caughtUp(news, number)) }
    }

    /// The missed news have come before this message, or cannot be had in time.
    mutating func caughtUp(_ news: MissedNews, _ number: UInt64, _ scratch: inout Scratch) {
        if news == .changes, let again = missedChanges.repeats(number) { return ask(.changes, again) }
        let waiting =
            switch news {
            case .changes: missedChanges.end(number, at: now.monotonic)
            case .ownKeys: missedKeys.end(number, at: now.monotonic)
            }
        for exchange in waiting where exchanges.resume(exchange, from: .entitlement) != nil { decideAgain(exchange.index, &scratch) }
    }
}
