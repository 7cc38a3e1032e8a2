import Gate
import Telemetry
import Wire

/// Health of one upstream address, by probes (active) and by the answers to its requests (passive).
///
/// - Probes: two failures in a row make it unhealthy, two successes healthy again.
/// - Requests: failures in a row, and answers in a row that were cut off or malformed behind their heads, make it a suspect; the
///   worker that judges then ejects it, see `OutlierDetection`. The head of a good answer ends the first row, a complete answer the second.
///
/// A value without clocks or sockets; one per worker and address.
struct EndpointHealth: Equatable, Sendable {
    static let probesToTurn = 2

    private(set) var isHealthy = true
    private(set) var absence: Absence?
    /// When it was added to others or came back, while its load rises (slow start).
    private(set) var joinedAt: MonotonicTime?
    /// Whether it is healthy, in, and takes its full share: nothing is to be looked at before it is chosen.
    private(set) var isSettled = true
    private var contraryProbes = 0
    private var failures = 0
    private var brokenAnswers = 0
    /// The clients of a row of answers that told them to wait, each another one.
    private var throttled: [ClientMark] = []
    /// Slow start: thousandths of a turn that it has saved.
    private var credit = 0

    enum Change: Equatable { case none, turnedHealthy, turnedUnhealthy }

    private mutating func settle() { isSettled = isHealthy && absence == nil && joinedAt == nil }

    /// Whether requests may go there.
    func isAvailable(at now: MonotonicTime) -> Bool { isHealthy && !isOut(at: now) }

    func isOut(at now: MonotonicTime) -> Bool { absence.map { now < $0.until } ?? false }

    // MARK: probes

    mutating func probed(good: Bool, at now: MonotonicTime, _ rules: OutlierRules) -> Change {
        guard good != isHealthy else {
            contraryProbes = 0
            return .none
        }
        contraryProbes += 1
        guard contraryProbes >= Self.probesToTurn else { return .none }
        learned(healthy: good, at: now, rules)
        return good ? .turnedHealthy : .turnedUnhealthy
    }

    /// Adopts the verdict of the worker that probes for all. An address that turns healthy is in, whatever it was out for.
    mutating func learned(healthy: Bool, at now: MonotonicTime, _ rules: OutlierRules) {
        contraryProbes = 0
        defer { settle() }
        guard healthy != isHealthy else { return }
        isHealthy = healthy
        guard healthy else { return }
        absence = nil
        joined(at: now, rules)
    }

    /// The address is not probed any more, so that no probe would find it well again.
    mutating func forgetProbes() {
        (isHealthy, contraryProbes) = (true, 0)
        settle()
    }

    // MARK: absences

    /// Adopts the verdict of the worker that judges. Rows begin anew.
    mutating func leave(_ absence: Absence) {
        self.absence = absence
        joinedAt = nil
        (failures, brokenAnswers) = (0, 0)
        throttled = []
        settle()
    }

    /// Ends an absence or a slow start whose time is over.
    mutating func advance(to now: MonotonicTime, _ rules: OutlierRules) {
        guard !isSettled else { return }
        if let absence, now >= absence.until {
            self.absence = nil
            joined(at: absence.until, rules)
        }
        if joinedAt != nil, share(at: now, rules) >= Self.whole { joinedAt = nil }
        settle()
    }

    /// It is added to others, or is back: its load rises from now on.
    mutating func joined(at now: MonotonicTime, _ rules: OutlierRules) {
        joinedAt = rules.slowStart > 0 ? now : nil
        credit = 0
        settle()
    }

    // MARK: slow start

    /// The share of a settled address, and the least, in thousandths.
    static let whole = 1_000
    private static let least = 100

    /// Its share of a settled address's load, in thousandths: from a tenth, in a straight line.
    func share(at now: MonotonicTime, _ rules: OutlierRules) -> Int {
        guard let joinedAt, rules.slowStart > 0 else { return Self.whole }
        let part = now.nanoseconds(since: joinedAt) / (rules.slowStart * 1_000)
        return min(Self.whole, max(Self.least, Int(clamping: part)))
    }

    /// It is its turn: whether it takes it. During a slow start it does as often as its share says.
    mutating func takesTurn(at now: MonotonicTime, _ rules: OutlierRules) -> Bool {
        let share = share(at: now, rules)
        guard share < Self.whole else { return true }
        credit += share
        guard credit >= Self.whole else { return false }
        credit -= Self.whole
        return true
    }

    // MARK: requests

    /// Whether there is anything that an answer resets.
    var hasFailures: Bool { failures | brokenAnswers != 0 || !throttled.isEmpty }

    /// The head of an answer has come that says nothing against the address, or not enough.
    mutating func answerBegan() {
        failures = 0
        throttled.removeAll(keepingCapacity: true)
    }

    mutating func answerEnded() { brokenAnswers = 0 }

    /// A request has failed; whether the row is so long that the address is a suspect. `isBrokenAnswer`: the head of its answer was good.
    mutating func requestFailed(at now: MonotonicTime, isBrokenAnswer: Bool = false, _ rules: OutlierRules) -> Bool {
        if isBrokenAnswer { brokenAnswers += 1 } else { failures += 1 }
        guard let limit = rules.failures, max(failures, brokenAnswers) >= limit, isAvailable(at: now) else { return false }
        (failures, brokenAnswers) = (0, 0)
        return true
    }

    /// An answer has told its client to wait. That is mostly this client's affair; whether the row has so many clients, of different
    /// addresses and users, that it is the address's.
    mutating func answerThrottled(_ client: ClientMark, at now: MonotonicTime, _ rules: OutlierRules) -> Bool {
        failures = 0
        guard !throttled.contains(where: { $0.mayBe(client) }) else { return false }
        throttled.append(client)
        guard throttled.count >= rules.failures ?? 5 else { return false }
        throttled.removeAll(keepingCapacity: true)
        return isAvailable(at: now)
    }
}
