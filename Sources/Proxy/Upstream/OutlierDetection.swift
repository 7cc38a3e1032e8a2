import Gate
import Telemetry
import Wire

/// Outlier detection: judges which addresses of an upstream are ejected, and when they are back.
///
/// The workers watch each for itself and report rows of failures at once, windows of answers when they end. One worker judges for all,
/// so that the bounds on ejected addresses hold for the process; all adopt its verdicts. Envoy's outlier detection, on values.
extension UpstreamPool {
    // MARK: watching, in every worker

    /// The answers of the window, by address, if it is over; another one begins. Windows of all workers end together.
    mutating func takeWindow(at now: MonotonicTime) -> [(number: Int, window: AnswerWindow)] {
        guard now >= windowEnd else { return [] }
        let interval = settings.outliers.interval * 1_000_000
        windowEnd = MonotonicTime(nanoseconds: (now.nanoseconds / interval + 1) * interval)
        var harvested: [(number: Int, window: AnswerWindow)] = []
        for number in windows.indices where !windows[number].isEmpty { harvested.append((number, windows[number].takeWindow())) }
        return harvested
    }

    // MARK: judging, in one worker

    /// Adds a worker's window to the judge's.
    mutating func gathered(_ window: AnswerWindow, of number: Int) { records[number].gathered.add(window) }

    /// Judges a suspect. Returns its absence if it goes out now, which also holds for this worker's requests; nil if it is out already, or
    /// too many others are.
    ///
    /// - Parameter rest: milliseconds that the address has asked for; nil for an ejection, whose length depends on earlier ones.
    mutating func judge(
        _ number: Int, _ reason: EjectionReason, rest: UInt64? = nil, detail: String = "", at now: MonotonicTime
    ) -> Absence? {
        guard !endpoints[number].isRetired, endpoints[number].health.isAvailable(at: now) else { return nil }
        let condition = condition(at: now)
        guard condition.available > 1 else { return nil }
        let length: UInt64
        if let rest {
            // Believing it must not begin a panic, in which nothing would be believed.
            guard rest > 0, (condition.available - 1) * 100 >= settings.outliers.panic * condition.total else { return nil }
            length = min(rest, OutlierRules.maxRest)
        } else {
            let ejected = endpoints.count { !$0.isRetired && $0.health.isEjected(at: now) }
            guard settings.outliers.maxEjected > 0, ejected < max(1, condition.total * settings.outliers.maxEjected / 100) else {
                return nil
            }
            length = settings.outliers.length(after: records[number].ejections(at: now, settings.outliers))
        }
        let absence = Absence(reason: reason, since: now, until: now.advanced(milliseconds: length))
        records[number].left(absence, detail, settings.outliers)
        endpoints[number].health.leave(absence)
        return absence
    }

    /// The addresses that the gathered windows show to be outliers, the worst first. What was gathered is dropped.
    mutating func outliers(at now: MonotonicTime) -> [Outlier] {
        let numbers = endpoints.indices.filter { !endpoints[$0].isRetired && endpoints[$0].health.isAvailable(at: now) }
        var found: [Outlier] = []
        if numbers.count >= OutlierRules.minAddresses {
            found = unsuccessful(numbers)
            found += slow(numbers).filter { slow in !found.contains { $0.number == slow.number } }
        }
        for number in records.indices { records[number].gathered = AnswerWindow() }
        return found
    }

    struct Outlier: Equatable {
        var number: Int
        var reason: EjectionReason
        var detail: String
    }

    /// Those with too few successes while the others together have enough: a fault that they have in common ejects none.
    private func unsuccessful(_ numbers: [Int]) -> [Outlier] {
        guard let least = settings.outliers.minSuccess else { return [] }
        var all = AnswerWindow()
        for number in numbers { all.add(records[number].gathered) }
        let suspects = numbers.compactMap { number -> (success: Int, outlier: Outlier)? in
            let own = records[number].gathered
            let others = AnswerWindow(successes: all.successes - own.successes, failures: all.failures - own.failures)
            guard own.count >= OutlierRules.minAnswers, others.count >= OutlierRules.minAnswers, own.success < least,
                others.success >= least
            else { return nil }
            let detail = "\(own.success)% of \(own.count) answers were successes, \(others.success)% of the other addresses'"
            return (own.success, Outlier(number: number, reason: .success, detail: detail))
        }
        return suspects.sorted { $0.success < $1.success }.map(\.outlier)
    }

    /// Those whose median is too far above the median of the others' medians.
    private func slow(_ numbers: [Int]) -> [Outlier] {
        guard let rule = settings.outliers.latency else { return [] }
        let medians = numbers.compactMap { number -> (number: Int, median: UInt64)? in
            let times = records[number].gathered.times
            guard times.count >= OutlierRules.minAnswers, let median = times.median else { return nil }
            return (number, median)
        }
        guard medians.count >= OutlierRules.minAddresses else { return [] }
        let suspects = medians.compactMap { own -> (median: UInt64, outlier: Outlier)? in
            let others = medians.filter { $0.number != own.number }.map(\.median).sorted()
            let usual = others[others.count / 2]
            guard own.median >= usual + OutlierRules.minDelay * 1_000, rule.isBroken(by: own.median, usual: usual) else { return nil }
            let detail =
                "half of \(records[own.number].gathered.times.count) answers took longer than \(own.median / 1_000) ms, the other addresses' \(usual / 1_000) ms"
            return (own.median, Outlier(number: own.number, reason: .latency, detail: detail))
        }
        return suspects.sorted { $0.median > $1.median }.map(\.outlier)
    }

    /// The addresses whose absence has ended since the last call.
    mutating func returned(at now: MonotonicTime) -> [Int] {
        records.indices.filter { records[$0].returnIfDue(now) }
    }
}

extension OutlierRules.LatencyRule {
    fileprivate func isBroken(by median: UInt64, usual: UInt64) -> Bool {
        switch self {
        case .factor(let factor): median > usual * factor
        case .bound(let milliseconds): median > milliseconds * 1_000 && usual <= milliseconds * 1_000
        }
    }
}

/// The judge's knowledge of one address.
struct EjectionRecord: Equatable, Sendable {
    /// The answers of all workers since the last judgement.
    var gathered = AnswerWindow()
    /// The absence under way, and why in words.
    private(set) var absence: Absence?
    private(set) var detail = ""
    /// Absences since the start.
    private(set) var total = 0
    /// Since when the probes fail; nil while they do not.
    private(set) var unhealthySince: MonotonicTime?
    /// Ejections that were not forgotten when the last one ended.
    private var remembered = 0
    private var ejectedUntil = MonotonicTime(nanoseconds: 0)

    /// Ejections that are not forgotten: one is for each interval since the last one's end.
    func ejections(at now: MonotonicTime, _ rules: OutlierRules) -> Int {
        max(0, remembered - Int(clamping: now.nanoseconds(since: ejectedUntil) / (rules.interval * 1_000_000)))
    }

    fileprivate mutating func left(_ absence: Absence, _ detail: String, _ rules: OutlierRules) {
        total += 1
        if absence.reason != .retryAfter {
            remembered = ejections(at: absence.since, rules) + 1
            ejectedUntil = absence.until
        }
        (self.absence, self.detail) = (absence, detail)
    }

    /// Whether an absence has ended since the last call.
    fileprivate mutating func returnIfDue(_ now: MonotonicTime) -> Bool {
        guard let absence, now >= absence.until else { return false }
        self.absence = nil
        return true
    }

    /// The probes have turned it. One that they find well is in, and nothing is held against it.
    mutating func probed(good: Bool, at now: MonotonicTime) {
        unhealthySince = good ? nil : now
        if good { (absence, remembered) = (nil, 0) }
    }

    /// The address is not probed any more.
    mutating func forgetProbes() { unhealthySince = nil }
}

extension EndpointHealth {
    /// Whether it is out by ejection, and not because it asked for it.
    func isEjected(at now: MonotonicTime) -> Bool { isOut(at: now) && absence?.reason != .retryAfter }
}
