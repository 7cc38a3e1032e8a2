/// What a limit does while Redis does not answer (`TOLLGATE_RATE_LIMIT_FAILURE`).
package enum LimitFailureMode: UInt8, CaseIterable, Sendable {
    /// Counts in this process, by this gateway's share of each rate.
    case local
    /// Lets everything pass.
    case open
    /// Refuses everything: 503.
    case closed

    /// As in the settings.
    package var name: String { "\(self)" }

    /// nil for a name that is none.
    package init?(name: String) {
        guard let mode = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = mode
    }
}

extension LimitRate {
    /// What one of `gateways` may admit so that all together admit no more than this rate: an interval as many times as
    /// long, and a burst divided and rounded down. A burst smaller than the number of gateways is one for each.
    func share(of gateways: UInt32) -> LimitRate {
        let gateways = min(max(gateways, 1), Self.mostGateways)
        return gateways == 1
            ? self : LimitRate(of: self, burst: max(1, burst / gateways), interval: shareInterval(of: gateways))
    }

    /// The interval of that share.
    func shareInterval(of gateways: UInt32) -> UInt64 { interval * UInt64(min(max(gateways, 1), Self.mostGateways)) }

    /// A day between two grants, times this, is far from overflow.
    private static let mostGateways: UInt32 = 4_096
}

extension LimitCharge {
    /// Becomes `charge` by the share that one of `gateways` has of each rate.
    mutating func fill(with charge: inout LimitCharge, sharedBy gateways: UInt32) {
        removeAll()
        for index in 0..<charge.count {
            var item = charge[index]
            item.rate = item.rate.share(of: gateways)
            append(item)
        }
    }
}
