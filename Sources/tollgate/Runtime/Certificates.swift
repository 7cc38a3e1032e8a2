internal import Credentials
internal import Settings
internal import Synchronization
internal import System
internal import Transport
internal import Wire

/// The certificates of the TLS listeners: those of files, read again when these change, and those that were issued to the gateway; and
/// the age of the session-ticket key. Every change is published while a lock is held, so that the newest is the last.
final class Certificates: Sendable {
    /// The files that a configuration names, as they were read.
    struct Loaded: Sendable {
        /// Without issued certificates.
        fileprivate let context: TLSServerContext?
        fileprivate let pairs: [TLSCertificatePair]
        fileprivate let clientAuthority: String?
        fileprivate let refusesOtherNames: Bool
        fileprivate var stamps: [FileStamp?]
        /// When each expires, by its first host name, or its file without one. Of two for one name, the earlier.
        fileprivate let expiries: [String: WallTime]
    }

    /// Certificates that were issued to the gateway, and responses to challenges by the server's name that is asked for.
    struct Issued: Sendable {
        var pairs: [TLSCertificatePair] = []
        var challenges: [String: TLSCertificatePair] = [:]
        var expiries: [String: WallTime] = [:]
    }

    fileprivate struct State {
        var loaded: Loaded
        var issued = Issued()
        var context: TLSServerContext?
        /// Why the files that are there now were not adopted, as it was reported; nil if they were.
        var fault: TLSFault?
        /// When the present session-ticket key was made.
        var ticketKeySince: MonotonicTime
        var publish: @Sendable (TLSServerContext) -> Void = { _ in }
    }

    private let state: Mutex<State>

    /// How long one key seals session tickets, in milliseconds. A leaked key decrypts every connection resumed under it, so
    /// it is replaced; sessions last two hours, so one earlier key is enough to open older tickets.
    private static let ticketKeyLife: UInt64 = 12 * 3_600_000

    /// Offered by ALPN, best first.
    private static let protocols = ["h2", "http/1.1"]

    var context: TLSServerContext? { state.withLock { $0.context } }
    var expiries: [String: WallTime] {
        state.withLock { state in state.loaded.expiries.merging(state.issued.expiries) { min($0, $1) } }
    }

    init(_ configuration: GatewayConfiguration, at moment: Moment) throws(TLSFault) {
        let loaded = try Self.load(configuration, resuming: nil, now: moment.wall)
        state = Mutex(State(loaded: loaded, context: loaded.context, ticketKeySince: moment.monotonic))
    }

    /// Called with each new context from now on, under a lock. Must not block.
    func follow(_ publish: @escaping @Sendable (TLSServerContext) -> Void) { state.withLock { $0.publish = publish } }

    /// Reads the files that `configuration` names. Changes nothing.
    func load(_ configuration: GatewayConfiguration, now: WallTime) throws(TLSFault) -> Loaded {
        try Self.load(configuration, resuming: context, now: now)
    }

    func adopt(_ loaded: Loaded, now: WallTime) { state.withLock { $0.adopt(loaded, now: now) } }

    /// Replaces the issued certificates and challenges; returns why they cannot serve, if they cannot.
    func adopt(_ issued: Issued, now: WallTime) -> TLSFault? { state.withLock { $0.adopt(issued, now: now) } }

    private static func load(
        _ configuration: GatewayConfiguration, resuming context: TLSServerContext?, now: WallTime
    ) throws(TLSFault) -> Loaded {
        let settings = configuration.settings
        let pairs = settings.tlsPairs.map { TLSCertificatePair(certificate: $0.certificate, key: $0.key) }
        return try load(
            pairs, settings.tlsClientAuthority, refusesOtherNames: settings.acmeDirectory != nil, resuming: context, now: now)
    }

    private static func load(
        _ pairs: [TLSCertificatePair], _ clientAuthority: String?, refusesOtherNames: Bool, resuming context: TLSServerContext?,
        now: WallTime
    ) throws(TLSFault) -> Loaded {
        // Before the files: one that changes while it is read is read again.
        let stamps = stamps(pairs, clientAuthority)
        let context =
            pairs.isEmpty && !refusesOtherNames
            ? nil
            : try TLSServerContext(
                pairs: pairs, clientAuthority: clientAuthority, protocols: protocols, now: now, refusesOtherNames: refusesOtherNames,
                resuming: context)
        return Loaded(
            context: context, pairs: pairs, clientAuthority: clientAuthority, refusesOtherNames: refusesOtherNames, stamps: stamps,
            expiries: expiries(of: pairs))
    }

    /// Reads the files again if one has changed, and adopts them; nil if none has. A certificate and key that do not match, as while they
    /// are being replaced, are tried again with each call: the reason may pass without another change, as a lack of descriptors does. The
    /// same fault is returned once.
    func changed(now: WallTime) -> Result<TLSServerContext, TLSFault>? {
        state.withLock { state -> Result<TLSServerContext, TLSFault>? in
            let loaded = state.loaded
            let stamps = Self.stamps(loaded.pairs, loaded.clientAuthority)
            guard let context = state.context, stamps != loaded.stamps || state.fault != nil else { return nil }
            let reported = stamps == loaded.stamps ? state.fault : nil
            state.loaded.stamps = stamps
            do throws(TLSFault) {
                let renewed = try Self.load(
                    loaded.pairs, loaded.clientAuthority, refusesOtherNames: loaded.refusesOtherNames, resuming: context, now: now)
                state.adopt(renewed, now: now)
                return state.context.map { .success($0) }
            } catch {
                state.fault = error
                return error == reported ? nil : .failure(error)
            }
        }
    }

    /// Replaces the session-ticket key, once it is too old.
    func rotate(now: MonotonicTime) throws(TLSFault) {
        let fault = state.withLock { state -> TLSFault? in
            guard let context = state.context, now >= state.ticketKeySince.advanced(milliseconds: Self.ticketKeyLife) else { return nil }
            state.ticketKeySince = now
            do throws(TLSFault) {
                state.serve(try context.withNewTicketKey())
                return nil
            } catch {
                return error
            }
        }
        if let fault { throw fault }
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

extension Certificates.State {
    fileprivate mutating func adopt(_ loaded: Certificates.Loaded, now: WallTime) {
        self.loaded = loaded
        fault = nil
        context = loaded.context
        // A fault of what was issued has been reported.
        _ = adopt(issued, now: now)
    }

    fileprivate mutating func adopt(_ issued: Certificates.Issued, now: WallTime) -> TLSFault? {
        self.issued = issued
        guard let context else { return nil }
        do throws(TLSFault) {
            let isUsed = loaded.refusesOtherNames
            let (renewed, fault) = try context.with(
                issued: isUsed ? issued.pairs : [], challenges: isUsed ? issued.challenges : [:], now: now)
            serve(renewed)
            return fault
        } catch {
            return error
        }
    }

    fileprivate mutating func serve(_ context: TLSServerContext) {
        self.context = context
        publish(context)
    }
}

extension FileStamp {
    /// nil for a file that cannot be looked at: it counts as changed once it can be.
    init?(of path: String) {
        do { self = try FileBytes.stamp(path) } catch { return nil }
    }
}
