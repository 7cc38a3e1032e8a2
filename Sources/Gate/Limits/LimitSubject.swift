import Wire

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
