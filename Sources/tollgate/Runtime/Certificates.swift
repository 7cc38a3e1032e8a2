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
        fileprivate var context: TLSServerContext?
        fileprivate let pairs: [TLSCertificatePair]
        fileprivate let clientAuthority: String?
        fileprivate let revocationLists: [String]
        fileprivate let refusesOtherNames: Bool
        fileprivate let keySecret: [UInt8]?
        fileprivate var stamps: [FileStamp?] = []
        /// When each expires, by its first host name, or its file without one. Of two for one name, the earlier.
        fileprivate var expiries: [String: WallTime] = [:]
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
        /// The day of the present session-ticket key of all gateways.
        var ticketDay: Int64
        /// The sentences about lists of revoked certificates that cannot be used, as they were logged.
        var listFaults: Set<String> = []
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
        state = Mutex(
            State(
                loaded: loaded, context: loaded.context, ticketKeySince: moment.monotonic,
                ticketDay: SharedTicketKeys.day(at: moment.wall)))
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
        let loaded = Loaded(
            pairs: pairs, clientAuthority: settings.tlsClientAuthority, revocationLists: settings.tlsRevocationLists,
            refusesOtherNames: settings.acmeDirectory != nil, keySecret: settings.keySecret)
        return try load(loaded, resuming: context, now: now)
    }

    /// Reads the files that `named` names.
    private static func load(
        _ named: Loaded, resuming context: TLSServerContext?, now: WallTime, keepsClients: Bool = false
    ) throws(TLSFault) -> Loaded {
        var loaded = named
        // Before the files: one that changes while it is read is read again.
        loaded.stamps = stamps(loaded)
        loaded.expiries = expiries(of: loaded.pairs)
        guard !loaded.pairs.isEmpty || loaded.refusesOtherNames else { return loaded }
        loaded.context = try TLSServerContext(
            pairs: loaded.pairs, clientAuthority: loaded.clientAuthority, revocationLists: loaded.revocationLists, protocols: protocols,
            now: now, refusesOtherNames: loaded.refusesOtherNames, resuming: context,
            ticketKeys: SharedTicketKeys.keys(loaded.keySecret, on: SharedTicketKeys.day(at: now)), keepsClients: keepsClients)
        return loaded
    }

    /// Reads the files again if one has changed, and adopts them; nil if none has. Files for client certificates that cannot be used do not
    /// keep renewed certificates from being adopted: the former ones stay in force (`clientFault`). A certificate and key that do not match,
    /// as while they are being replaced, are tried again with each call: the reason may pass without another change, as a lack of
    /// descriptors does. The same fault is returned once.
    func changed(now: WallTime) -> Result<TLSServerContext, TLSFault>? {
        state.withLock { state -> Result<TLSServerContext, TLSFault>? in
            let stamps = Self.stamps(state.loaded)
            guard let context = state.context, stamps != state.loaded.stamps || state.fault != nil else { return nil }
            let reported = stamps == state.loaded.stamps ? state.fault : nil
            state.loaded.stamps = stamps
            do throws(TLSFault) {
                if reported != nil, context.clientFault == reported, let authority = state.loaded.clientAuthority {
                    // The rest is in force: each further try would make another context.
                    _ = try TLSServerContext.revocationLists(state.loaded.revocationLists, of: authority)
                }
                state.adopt(try Self.load(state.loaded, resuming: context, now: now, keepsClients: true), now: now)
                state.fault = state.context?.clientFault
                return state.context.map { .success($0) }
            } catch {
                state.fault = error
                return error == reported ? nil : .failure(error)
            }
        }
    }

    /// Why files that are there now were not adopted, and the lists of revoked certificates that cannot be used; of these the new
    /// ones alone go to `report`.
    func faults(now: WallTime, report: (String) -> Void) -> [String] {
        let (sentences, former, fault) = state.withLock { state in
            let sentences = TLSRevocationList.faults(of: state.context?.revocationLists ?? [], now: now)
            let former = state.listFaults
            state.listFaults = Set(sentences)
            return (sentences, former, state.fault)
        }
        for sentence in sentences where !former.contains(sentence) { report(sentence) }
        return (fault.map { [$0.description] } ?? []) + sentences
    }

    /// Replaces the session-ticket keys, once they are too old.
    func rotate(now: Moment) throws(TLSFault) {
        let day = SharedTicketKeys.day(at: now.wall)
        let fault = state.withLock { state -> TLSFault? in
            guard var context = state.context else { return nil }
            let isOld = now.monotonic >= state.ticketKeySince.advanced(milliseconds: Self.ticketKeyLife)
            guard isOld || day != state.ticketDay else { return nil }
            state.ticketDay = day
            if isOld {
                state.ticketKeySince = now.monotonic
                do throws(TLSFault) { context = try context.withNewTicketKey() } catch { return error }
            }
            state.serve(context.sharing(SharedTicketKeys.keys(state.loaded.keySecret, on: day)))
            return nil
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

    private static func stamps(_ loaded: Loaded) -> [FileStamp?] {
        (loaded.pairs.flatMap { [$0.certificate, $0.key] } + [loaded.clientAuthority].compactMap { $0 } + loaded.revocationLists)
            .map(FileStamp.init(of:))
    }
}

/// The session-ticket keys of all gateways with one `TOLLGATE_KEY_SECRET`. Each day has its own, derived from the secret, so that no
/// gateway has to make and hand out any. Clocks may differ by a day.
enum SharedTicketKeys {
    /// Days since 1970.
    static func day(at now: WallTime) -> Int64 { now.seconds / 86_400 }

    /// The keys of the day before, of this day and of the next; none without a secret.
    static func keys(_ secret: [UInt8]?, on day: Int64) -> [[UInt8]] {
        guard let secret else { return [] }
        return (day - 1...day + 1).map { day in
            let blocks = (0..<3).flatMap { block in
                Digest.hmacSHA256(Array("tollgate session tickets \(day) \(block)".utf8).rawBytes, key: secret.rawBytes)
            }
            return Array(blocks.prefix(TLSServerContext.ticketKeyLength))
        }
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

/// The certificates of the listeners, and those who learn of them.
struct CertificatePart: Part {
    let certificates: Certificates
    let orders: AcmeOrders?
    let health: ConditionLog
    let log: ServerLog

    func prepare(_ next: NextConfiguration) throws -> Commit {
        let loaded = try certificates.load(next.configuration, now: next.moment.wall)
        return Commit {
            certificates.adopt(loaded, now: next.moment.wall)
        } published: {
            orders?.adopt()
            health.adopt(certificates, log)
        }
    }
}

extension ConditionLog {
    /// Adopted are also certificates that have expired, or are not valid yet: clients may be content with them.
    func adopt(_ certificates: Certificates, _ log: ServerLog) {
        certificatesAdopted(certificates.expiries)
        for warning in certificates.context?.warnings ?? [] { log.warning("certificate", ("detail", warning)) }
    }
}
