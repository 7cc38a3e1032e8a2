import Credentials
package import HTTP
package import Wire

/// State that a waiting request keeps until its limits are decided: enough to turn the verdict into fields and a refusal
/// without the decision. Costs one reference, and survives a reload.
package struct PendingLimit: Sendable {
    let sheet: CompiledLimits
    let row: Int
    /// The limit of the caller's API key, which comes last.
    let own: LimitRate?
    /// Whether the limits are in shadow mode.
    let isShadowed: Bool
    /// Whose counts are the last.
    let singles: SingleUses

    /// Outcome for the request. Adds the rate limit fields, if anything was counted.
    package func settle(_ verdict: inout LimitVerdict, into edits: inout FieldEdits) -> LimitOutcome {
        sheet.settle(row, own: own, isShadowed: isShadowed, singles: singles, &verdict, into: &edits)
    }
}

extension Admission {
    /// Applies the verdict of the charge that `admit` asked for.
    package mutating func charged(_ decision: inout Decision) {
        decision.limit = limits.settle(
            decision.limitRow, own: decision.ownRate, isShadowed: decision.isLimitShadowed, singles: decision.singles,
            &decision.limitVerdict, into: &decision.answerEdits)
        if decision.limit.result == .shadowRefused { decision.shadowed.insert(.limit) }
        if decision.limit.spent == .attestation { decision.attestation = .used }
        if decision.limit.spent == .proof { return refuseProof(.replayed, &decision) }
        decision.singles = []
        if let refusal = decision.limit.refusal { decision.refuse(refusal) }
    }

    /// The part of a decision to keep while its charge waits for a verdict; the decision itself is reused meanwhile.
    package mutating func pendingLimit(_ decision: inout Decision) -> PendingLimit {
        PendingLimit(
            sheet: limits, row: decision.limitRow, own: decision.ownRate, isShadowed: decision.isLimitShadowed, singles: decision.singles)
    }

    /// Appends the counts that `decision` charges and their rates, for the log: `KEY@RATE`, separated by spaces. Keys are
    /// keyed hashes, so nothing personal is logged.
    package func appendLimitMarks(_ decision: inout Decision, to out: inout ByteBuffer) {
        limits.appendMarks(decision.limitRow, &decision.charge, to: &out)
    }
}

extension CompiledLimits {
    /// Outcome of `verdict` for a request charged by row `row`, and by its key's own limit behind that.
    @inline(__always)
    func settle(
        _ row: Int, own: LimitRate?, isShadowed: Bool, singles: SingleUses, _ verdict: inout LimitVerdict, into edits: inout FieldEdits
    ) -> LimitOutcome {
        let row = rows[row]
        var outcome = LimitOutcome()
        if !singles.isEmpty, verdict.count > 0 {
            outcome.spent = verdict.takeSpent(singles)
            if !outcome.spent.isEmpty || verdict.count == 0 { return outcome }
        }
        outcome.index = verdict.tightest
        outcome.source = verdict.source
        outcome.countedAt = verdict.countedAt
        outcome.rate = outcome.index < row.count ? lines[row.first + outcome.index].rate : own
        switch verdict.kind {
        case .open: outcome.result = .open
        // Shadow mode refuses nothing.
        case .closed where isShadowed: outcome.result = .open
        case .closed:
            outcome.result = .closed
            outcome.retryAfterSeconds = max(1, verdict.retryAfterSeconds)
        case .granted, .refused:
            outcome.count(verdict.kind == .granted, verdict[outcome.index], isShadowed)
            LimitHeaders.write(&verdict, outcome, self, row, &edits)
        }
        return outcome
    }
}

extension LimitOutcome {
    fileprivate mutating func count(_ isGranted: Bool, _ reading: LimitReading, _ isShadowed: Bool) {
        remaining = reading.remaining
        resetSeconds = Self.seconds(reading.reset)
        guard !isGranted else {
            result = .admitted
            return
        }
        result = isShadowed ? .shadowRefused : .refused
        retryAfterSeconds = max(1, Self.seconds(reading.retryAfter))
    }

    /// Rounded up.
    static func seconds(_ microseconds: UInt64) -> UInt32 {
        UInt32(truncatingIfNeeded: min((microseconds &+ 999_999) / 1_000_000, UInt64(UInt32.max)))
    }
}
