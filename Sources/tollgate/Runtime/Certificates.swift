internal import Credentials
internal import Settings
internal import System
internal import Transport
internal import Wire

/// The certificates of the TLS listeners, read again when their files change, and the age of the session-ticket key.
struct Certificates {
    private(set) var context: TLSServerContext?
    private var pairs: [TLSCertificatePair] = []
    private var clientAuthority: String?
    private var stamps: [FileStamp?] = []
    /// Why the files that are there now were not adopted, as it was told; nil if they were.
    private var fault: TLSFault?
    /// When each expires, by its first host name, or its file without one. Of two for one name, the earlier.
    private(set) var expiries: [String: WallTime] = [:]
    /// When the present session-ticket key was made.
    private var ticketKeySince: MonotonicTime

    /// How long one key seals session tickets, in milliseconds. A leaked key decrypts every connection resumed under it, so
    /// it is replaced; sessions last two hours, so one earlier key is enough to open older tickets.
    private static let ticketKeyLife: UInt64 = 12 * 3_600_000

    /// Offered by ALPN, best first.
    private static let protocols = ["h2", "http/1.1"]

    init(_ configuration: GatewayConfiguration, at moment: Moment) throws(TLSFault) {
        ticketKeySince = moment.monotonic
        try adopt(configuration, now: moment.wall)
    }

    /// Reads the files that `configuration` names. On a fault nothing changes.
    mutating func adopt(_ configuration: GatewayConfiguration, now: WallTime) throws(TLSFault) {
        let pairs = configuration.settings.tlsPairs.map { TLSCertificatePair(certificate: $0.certificate, key: $0.key) }
        let clientAuthority = configuration.settings.tlsClientAuthority
        let stamps = Self.stamps(pairs, clientAuthority)
        context =
            pairs.isEmpty ? nil : try TLSServerContext(
                pairs: pairs, clientAuthority: clientAuthority, protocols: Self.protocols, now: now, resuming: context)
        self.pairs = pairs
        self.clientAuthority = clientAuthority
        self.stamps = stamps
        fault = nil
        expiries = Self.expiries(of: pairs)
    }

    /// Reads the files again if one has changed; nil if none has. A certificate and key that do not match, as while they are
    /// being replaced, are tried again with each call: the reason may pass without another change, as a lack of descriptors does. The
    /// same fault is returned once.
    mutating func changed(now: WallTime) -> Result<TLSServerContext, TLSFault>? {
        let stamps = Self.stamps(pairs, clientAuthority)
        guard !pairs.isEmpty, stamps != self.stamps || fault != nil else { return nil }
        let told = stamps == self.stamps ? fault : nil
        self.stamps = stamps
        do {
            let renewed = try TLSServerContext(
                pairs: pairs, clientAuthority: clientAuthority, protocols: Self.protocols, now: now, resuming: context)
            context = renewed
            expiries = Self.expiries(of: pairs)
            fault = nil
            return .success(renewed)
        } catch {
            fault = error
            return error == told ? nil : .failure(error)
        }
    }

    /// The context with a new session-ticket key, once the present one is too old.
    mutating func rotated(now: MonotonicTime) throws(TLSFault) -> TLSServerContext? {
        guard let context, now >= ticketKeySince.advanced(milliseconds: Self.ticketKeyLife) else { return nil }
        ticketKeySince = now
        let renewed = try context.withNewTicketKey()
        self.context = renewed
        return renewed
    }

    private static func expiries(of pairs: [TLSCertificatePair]) -> [String: WallTime] {
        let leaves = pairs.compactMap { pair -> (String, WallTime)? in
            // Only a metric is missing if the file has changed since it was adopted.
            guard let text = try? FileBytes.read(pair.certificate, limit: 1 << 20),
                let leaf = try? PublicKeyPin.all(in: text.rawBytes).first?.certificate
            else { return nil }
            return (leaf.hostNames.first ?? pair.certificate, leaf.expiresAt)
        }
        return Dictionary(leaves) { min($0, $1) }
    }

    private static func stamps(_ pairs: [TLSCertificatePair], _ clientAuthority: String?) -> [FileStamp?] {
        (pairs.flatMap { [$0.certificate, $0.key] } + [clientAuthority].compactMap { $0 }).map(FileStamp.init(of:))
    }
}

extension FileStamp {
    /// nil for a file that cannot be looked at: it counts as changed once it can be.
    init?(of path: String) {
        do { self = try FileBytes.stamp(path) } catch { return nil }
    }
}
