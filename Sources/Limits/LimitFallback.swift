import Gate

extension LimitRate {
    /// The rate that each of `gateways` may admit so that their sum stays within this rate: the interval multiplied, the
    /// burst divided and rounded down, at least 1.
    func share(of gateways: UInt32) -> LimitRate {
        let gateways = min(max(gateways, 1), Self.maxGateways)
        return gateways == 1
            ? self : LimitRate(of: self, burst: max(1, burst / gateways), interval: shareInterval(of: gateways))
    }

    /// The interval of that share, in microseconds.
    func shareInterval(of gateways: UInt32) -> UInt64 { interval * UInt64(min(max(gateways, 1), Self.maxGateways)) }

    /// A day between two grants, times this, is far from overflow.
    private static let maxGateways: UInt32 = 4_096
}

extension LimitCharge {
    /// Copies `charge` with each rate divided among `gateways`, but for what counts once.
    mutating func fill(with charge: inout LimitCharge, sharedBy gateways: UInt32) {
        removeAll()
        for index in 0..<charge.count {
            var item = charge[index]
            if !item.subject.countsOnce { item.rate = item.rate.share(of: gateways) }
            append(item)
        }
    }
}
