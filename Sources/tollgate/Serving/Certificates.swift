internal import Settings
internal import Transport
internal import Wire

/// The certificates of the TLS listeners, and whether their files have changed since they were read.
struct Certificates {
    private(set) var context: TLSServerContext?
    private var pairs: [TLSCertificatePair] = []
    private var clientAuthority: String?
    private var stamps: [FileStamp?] = []
    /// Since when the present key seals session tickets.
    private var ticketKeySince: MonotonicTime

    /// How long one key seals tickets, in milliseconds: who learns it can read what was resumed under it, so it must not live
    /// as long as the process. Sessions last two hours, so the key before it is all that must still open.
    private static let ticketKeyLife: UInt64 = 12 * 3_600_000

    init(_ configuration: GatewayConfiguration, at moment: Moment) throws(TLSFault) {
        ticketKeySince = moment.monotonic
        try adopt(configuration, now: moment.wall)
    }

    /// Reads the files that `configuration` names. On a fault nothing changes.
    mutating func adopt(_ configuration: GatewayConfiguration, now: WallTime) throws(TLSFault) {
        let pairs = configuration.tlsPairs.map { TLSCertificatePair(certificate: $0.certificate, key: $0.key) }
        let clientAuthority = configuration.tlsClientAuthority
        let stamps = Self.stamps(pairs, clientAuthority)
        context =
            pairs.isEmpty ? nil : try TLSServerContext(pairs: pairs, clientAuthority: clientAuthority, now: now, resuming: context)
        self.pairs = pairs
        self.clientAuthority = clientAuthority
        self.stamps = stamps
    }

    /// Reads the files again if any of them changed; nil if none did. A pair that does not fit, as between the writing
    /// of a certificate and of its key, is tried again when a file changes once more.
    mutating func changed(now: WallTime) -> Result<TLSServerContext, TLSFault>? {
        let stamps = Self.stamps(pairs, clientAuthority)
        guard !pairs.isEmpty, stamps != self.stamps else { return nil }
        self.stamps = stamps
        do {
            let renewed = try TLSServerContext(pairs: pairs, clientAuthority: clientAuthority, now: now, resuming: context)
            context = renewed
            return .success(renewed)
        } catch {
            return .failure(error)
        }
    }

    /// The context with a new key for session tickets, if the present one has served its time.
    mutating func rotated(now: MonotonicTime) throws(TLSFault) -> TLSServerContext? {
        guard let context, now >= ticketKeySince.advanced(milliseconds: Self.ticketKeyLife) else { return nil }
        ticketKeySince = now
        let renewed = try context.withNewTicketKey()
        self.context = renewed
        return renewed
    }

    private static func stamps(_ pairs: [TLSCertificatePair], _ clientAuthority: String?) -> [FileStamp?] {
        (pairs.flatMap { [$0.certificate, $0.key] } + [clientAuthority].compactMap { $0 }).map(stamp)
    }

    /// A file that cannot be looked at counts as changed when it can be again.
    private static func stamp(_ path: String) -> FileStamp? {
        do {
            return try FileBytes.stamp(path)
        } catch {
            return nil
        }
    }
}
