internal import Credentials
internal import Settings
internal import System
internal import Transport
internal import Wire

/// The certificates of the TLS listeners, read again when their files change, and the age of the session-ticket key. Belongs to the main
/// thread.
final class Certificates {
    /// The files that a configuration names, as they were read.
    struct Loaded {
        fileprivate(set) var context: TLSServerContext?
        fileprivate let pairs: [TLSCertificatePair]
        fileprivate let clientAuthority: String?
        fileprivate var stamps: [FileStamp?]
        /// When each expires, by its first host name, or its file without one. Of two for one name, the earlier.
        fileprivate(set) var expiries: [String: WallTime]
    }

    private var loaded: Loaded
    /// Why the files that are there now were not adopted, as it was reported; nil if they were.
    private var fault: TLSFault?
    /// When the present session-ticket key was made.
    private var ticketKeySince: MonotonicTime

    /// How long one key seals session tickets, in milliseconds. A leaked key decrypts every connection resumed under it, so
    /// it is replaced; sessions last two hours, so one earlier key is enough to open older tickets.
    private static let ticketKeyLife: UInt64 = 12 * 3_600_000

    /// Offered by ALPN, best first.
    private static let protocols = ["h2", "http/1.1"]

    var context: TLSServerContext? { loaded.context }
    var expiries: [String: WallTime] { loaded.expiries }

    init(_ configuration: GatewayConfiguration, at moment: Moment) throws(TLSFault) {
        ticketKeySince = moment.monotonic
        loaded = try Self.load(configuration, resuming: nil, now: moment.wall)
    }

    /// Reads the files that `configuration` names. Changes nothing.
    func load(_ configuration: GatewayConfiguration, now: WallTime) throws(TLSFault) -> Loaded {
        try Self.load(configuration, resuming: context, now: now)
    }

    func adopt(_ loaded: Loaded) {
        self.loaded = loaded
        fault = nil
    }

    private static func load(
        _ configuration: GatewayConfiguration, resuming context: TLSServerContext?, now: WallTime
    ) throws(TLSFault) -> Loaded {
        let pairs = configuration.settings.tlsPairs.map { TLSCertificatePair(certificate: $0.certificate, key: $0.key) }
        return try load(pairs, configuration.settings.tlsClientAuthority, resuming: context, now: now)
    }

    private static func load(
        _ pairs: [TLSCertificatePair], _ clientAuthority: String?, resuming context: TLSServerContext?, now: WallTime
    ) throws(TLSFault) -> Loaded {
        // Before the files: one that changes while it is read is read again.
        let stamps = stamps(pairs, clientAuthority)
        let context =
            pairs.isEmpty
            ? nil : try TLSServerContext(pairs: pairs, clientAuthority: clientAuthority, protocols: protocols, now: now, resuming: context)
        return Loaded(context: context, pairs: pairs, clientAuthority: clientAuthority, stamps: stamps, expiries: expiries(of: pairs))
    }

    /// Reads the files again if one has changed; nil if none has. A certificate and key that do not match, as while they are
    /// being replaced, are tried again with each call: the reason may pass without another change, as a lack of descriptors does. The
    /// same fault is returned once.
    func changed(now: WallTime) -> Result<TLSServerContext, TLSFault>? {
        let stamps = Self.stamps(loaded.pairs, loaded.clientAuthority)
        guard let context, stamps != loaded.stamps || fault != nil else { return nil }
        let reported = stamps == loaded.stamps ? fault : nil
        loaded.stamps = stamps
        do {
            let renewed = try Self.load(loaded.pairs, loaded.clientAuthority, resuming: context, now: now)
            adopt(renewed)
            return renewed.context.map { .success($0) }
        } catch {
            fault = error
            return error == reported ? nil : .failure(error)
        }
    }

    /// The context with a new session-ticket key, once the present one is too old.
    func rotated(now: MonotonicTime) throws(TLSFault) -> TLSServerContext? {
        guard let context, now >= ticketKeySince.advanced(milliseconds: Self.ticketKeyLife) else { return nil }
        ticketKeySince = now
        let renewed = try context.withNewTicketKey()
        loaded.context = renewed
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
