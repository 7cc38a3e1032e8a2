import Wire

/// Kinds of subjects that are counted. Counts of one kind never evict those of another (`SharedLimiter`), so each stands for
/// what a client must have to be many: tokens of many users, sessions, addresses, or nothing but invented texts.
package enum SubjectKind: UInt8, CaseIterable, Sendable {
    /// A user of a verified token.
    case user
    /// A session of a verified token.
    case session
    /// A client's address, IPv6 by its /64.
    case address
    /// A value of a request's field, whatever it says.
    case header
    /// An address from which accounts are tried.
    case attemptAddress
    /// A name or recipient that is tried, whether or not there is an account of it.
    case attemptName
    /// The deployment as a whole: one subject, which nothing evicts.
    case deployment
}

extension LimitCharge.Item {
    /// How many partitions there are.
    static var partitions: Int { SubjectKind.allCases.count * LimitRate.recoveries }

    /// Which counts this one may evict and be evicted by: those with the same number.
    var partition: Int { Int(subject.rawValue) &* LimitRate.recoveries &+ rate.recovery }
}

extension LimitRate {
    fileprivate static var recoveries: Int { 3 }

    /// Limits by how long a spent burst takes to come back: up to a minute, up to an hour, longer. Rounded up to powers of two
    /// of microseconds, as the interval is rounded up.
    fileprivate var recovery: Int { tolerance < 1 << 26 ? 0 : tolerance < 1 << 32 ? 1 : 2 }
}

/// The half of a `LimitKey` that says whom a charge counts against. Subjects of different kinds never meet.
enum LimitSubject {
    private static let userDomain: UInt64 = 1
    private static let sessionDomain: UInt64 = 2
    private static let addressDomain: UInt64 = 3
    private static let headerDomain: UInt64 = 4
    private static let policyDomain: UInt64 = 5

    /// Two issuers may give the same id to two people.
    static func user(_ id: RawSpan, issuer: String, _ hash: KeyedHash) -> LimitKey {
        ofIssuer(issuer, id, userDomain, hash)
    }

    static func session(_ id: RawSpan, issuer: String, _ hash: KeyedHash) -> LimitKey {
        ofIssuer(issuer, id, sessionDomain, hash)
    }

    private static func ofIssuer(_ issuer: String, _ id: RawSpan, _ domain: UInt64, _ hash: KeyedHash) -> LimitKey {
        var bytes = ByteBuffer(capacity: issuer.utf8.count + id.byteCount + 8)
        bytes.append(hex: UInt64(issuer.utf8.count), digits: 8)
        bytes.append(issuer)
        bytes.append(id)
        return hash.hash128(bytes.readable, domain: domain)
    }

    @inline(__always)
    static func address(_ address: IPAddress, _ hash: KeyedHash) -> LimitKey {
        let counted = address.limitPrefix
        return hash.hash128(counted.high, counted.low, domain: addressDomain)
    }

    static func header(_ value: RawSpan, _ hash: KeyedHash) -> LimitKey {
        hash.hash128(value, domain: headerDomain)
    }

    /// The other half: a limit's name, its rate, and whom it counts.
    static func policy(_ name: String, _ rate: LimitRate, _ by: LimitBy, _ hash: KeyedHash) -> LimitKey {
        "\(rate.text) \(by.text) \(name)".withRawBytes { hash.hash128($0, domain: policyDomain) }
    }
}
