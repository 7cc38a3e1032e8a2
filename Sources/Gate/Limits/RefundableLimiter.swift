package import Wire

/// Counts attempts that are charged when they are admitted, and given back when they turn out not to count: sign-ins whose
/// password was right, messages that were not sent. In this process, and with other gateways where they share a Redis.
///
/// The own count is charged first, and what it refuses Redis is not asked for: that holds the charges of this gateway among
/// others. Where Redis does not answer, the own count decides, so that no attempt passes uncounted. The steps of one attempt
/// are methods; asking Redis and making the attempt lie between them, and are the caller's.
///
/// Calls must come one at a time, in the order of their `now`; see `GCRA.credit`.
package struct RefundableLimiter: Sendable {
    /// One charged on each of some counts.
    package struct Charge: Equatable, Sendable {
        package let items: [LimitCharge.Item]
        /// When it was counted here.
        package let at: MonotonicTime
        /// When Redis counted it, in microseconds by its clock; nil where it did not, or did not say so.
        package var sharedAt: UInt64?

        package init(_ items: [LimitCharge.Item], at: MonotonicTime, sharedAt: UInt64? = nil) {
            self.items = items
            self.at = at
            self.sharedAt = sharedAt
        }
    }

    package enum Verdict: Equatable, Sendable {
        /// All counts have been charged.
        case admitted(Charge)
        /// None has. For each count the microseconds until it has room, 0 where it has.
        case refused([UInt64])
    }

    private let own: SharedLimiter

    package init(_ own: SharedLimiter) { self.own = own }

    /// Charges one on each of these own counts, at most four, or on none.
    package func charge(_ items: [LimitCharge.Item], now: MonotonicTime) -> Verdict {
        var charge = LimitCharge()
        for item in items { charge.append(item) }
        var verdict = LimitVerdict()
        own.take(&charge, now: now, into: &verdict)
        guard verdict.kind == .granted else {
            return .refused((0..<charge.count).map { verdict[$0].remaining == 0 ? max(1, verdict[$0].retryAfter) : 0 })
        }
        return .admitted(Charge(items, at: now))
    }

    /// Redis was asked for `charge`, and said this; nil if it did not answer. What it refused is given back here.
    package func settle(_ charge: Charge, _ reply: GCRAReply?, now: MonotonicTime) -> Verdict {
        guard let reply else { return .admitted(charge) }
        guard reply.granted == 0 else { return .admitted(Charge(charge.items, at: charge.at, sharedAt: reply.at)) }
        refund(charge, now: now)
        return .refused(
            charge.items.enumerated().map { index, item in
                let reading = reply.reading(index, item.rate)
                return reading.remaining == 0 ? max(1, reading.retryAfter) : 0
            })
    }

    /// Gives a charge back to the own counts. What Redis counted of it, `RefundScript` gives back.
    package func refund(_ charge: Charge, now: MonotonicTime) {
        for item in charge.items {
            let credit = GCRA.credit(
                interval: item.rate.interval, chargedAt: charge.at.nanoseconds / 1_000, now: now.nanoseconds / 1_000)
            own.refund(item, credit: credit, now: now)
        }
    }
}
