import Credentials
import HTTP
import Wire

/// The parts of a request that count once over all gateways. They are counted with the limits, in this order behind them.
package struct SingleUses: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The attestation of the app, where it counts once.
    package static let attestation = Self(rawValue: 1)
    /// The proof of possession.
    package static let proof = Self(rawValue: 2)
}

extension Admission {
    /// Adds the counts of what is used once to the charge, as the last ones.
    func chargeSingleUses(_ decision: inout Decision) {
        if decision.singles.contains(.attestation) { decision.charge.append(decision.attestationUse) }
        if decision.singles.contains(.proof), let user = decision.identity?.user {
            decision.charge.append(LimitCharge.Item(key: decision.proofKey, rate: .proof, subject: .proof, tag: user.tag))
        }
    }
}

extension Decision {
    /// The attestation of a request that passes, where shadow mode looks at its use. Each gateway counts these alone, and refuses nothing.
    package var watchedUse: LimitCharge.Item? {
        guard watchesUse else { return nil }
        switch verdict {
        case .forward, .local: return attestationUse
        case .lookUp, .refresh, .answer, .refuse: return nil
        }
    }

    /// It was used before.
    package mutating func noteRepeatedUse() {
        attestation = .used
        shadowed.insert(.attestation)
    }

    /// Those that limits which have not answered yet are to count. In another module a literal of the empty set takes 770 instructions.
    package var awaited: SingleUses { refusal == nil ? singles : SingleUses(rawValue: 0) }
}

extension LimitVerdict {
    /// Takes away the readings of what is used once; returns what was used before. The others may be what refused.
    mutating func takeSpent(_ singles: SingleUses) -> SingleUses {
        if singles.contains(.proof), takeReplay() { return .proof }
        return singles.contains(.attestation) && takeReplay() ? .attestation : []
    }
}

extension LimitRate {
    /// Once in three minutes: a proof counts for as long as it may be old and as clocks may differ, each a minute at most, and the clocks
    /// of gateways differ, too.
    static let proof = LimitRate(count: 20, windowSeconds: 3_600, burst: 1) ?? .nothing

    /// Once in the life that an attestation has left, at most a year, with what the clocks of gateways differ by.
    static func attestation(until end: Int64, at now: WallTime, skewSeconds: Int64) -> LimitRate {
        let (left, overflows) = end.subtractingReportingOverflow(now.seconds)
        let seconds = UInt64(overflows ? mostSeconds : max(0, min(left, mostSeconds)) + skewSeconds + 60)
        return LimitRate(of: daily, burst: 1, interval: seconds * 1_000_000)
    }

    private static let mostSeconds: Int64 = 366 * 86_400
    private static let daily = LimitRate(count: 1, windowSeconds: 86_400) ?? .nothing
}
