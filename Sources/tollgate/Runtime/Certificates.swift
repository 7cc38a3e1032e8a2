internal import Credentials
internal import Settings
internal import Synchronization
internal import System
internal import Transport
internal import Wire

/// The certificates of the TLS listeners: those of files, read again when these change, and those that were issued to the gateway; and
/// the age of the session-ticket key. Every change is published while a lock is held, so that the newest is the last.
final class Certificates: Sendable {
    /// The files that a configuration names, as they were read. Each is adopted on its own, or stays as it was.
    struct Loaded: Sendable {
        /// Without issued certificates.
        fileprivate var context: TLSServerContext?
        private var pairs: [WatchedFiles<TLSCertificatePair>] = []
        private var authority: WatchedFiles<TLSAuthorityFile>?
        private var lists: [WatchedFiles<TLSRevocationFile>] = []
        fileprivate let refusesOtherNames: Bool
        fileprivate let keySecret: [UInt8]?
        /// When each expires, by its first host name, or its file without one. Of two for one name, the earlier.
        fileprivate private(set) var expiries: [String: WallTime] = [:]

        /// Reads the files. Sessions of `context` can be resumed.
        fileprivate init(_ settings: Configuration, resuming context: TLSServerContext?, now: WallTime) throws(TLSFault) {
            (refusesOtherNames, keySecret) = (settings.acmeDirectory != nil, settings.keySecret)
            guard !settings.tlsPairs.isEmpty || refusesOtherNames else { return }
            for pair in settings.tlsPairs {
                let pair = TLSCertificatePair(certificate: pair.certificate, key: pair.key)
                pairs.append(try WatchedFiles([pair.certificate, pair.key]) { () throws(TLSFault) in try pair.read(now: now) })
            }
            if let path = settings.tlsClientAuthority {
                authority = try WatchedFiles([path]) { () throws(TLSFault) in try TLSAuthorityFile(path) }
            }
            for path in settings.tlsRevocationLists {
                lists.append(try WatchedFiles([path]) { () throws(TLSFault) in try TLSRevocationFile(path) })
            }
            try makeContext(resuming: context, now: now)
        }

        fileprivate mutating func makeContext(resuming former: TLSServerContext?, now: WallTime) throws(TLSFault) {
            context = try TLSServerContext(
                pairs: pairs.map(\.value), clientAuthority: authority?.value, revocationLists: lists.map(\.value),
                protocols: Certificates.protocols,
                now: now, refusesOtherNames: refusesOtherNames, resuming: former,
                ticketKeys: SharedTicketKeys.keys(keySecret, on: SharedTicketKeys.day(at: now)))
            expiries = Certificates.expiries(of: pairs.map(\.value))
        }

        /// Why files that are there now are not in force.
        fileprivate var faults: [String] { (pairs.map(\.fault) + [authority?.fault] + lists.map(\.fault)).compactMap(\.self) }

        /// Reads the files again that have changed. Answers whether one is another, and the faults that are new.
        fileprivate mutating func lookAgain(now: WallTime) -> (isNew: Bool, faults: [String]) {
            var found: [(isNew: Bool, fault: String?)] = []
            for index in pairs.indices {
                // With what is in the files now.
                let pair = TLSCertificatePair(certificate: pairs[index].value.certificate, key: pairs[index].value.key)
                found.append(pairs[index].lookAgain { try pair.read(now: now) })
            }
            if let path = authority?.value.path, let file = authority?.lookAgain({ try TLSAuthorityFile(path) }) { found.append(file) }
            for index in lists.indices {
                let path = lists[index].value.path
                found.append(lists[index].lookAgain { try TLSRevocationFile(path) })
            }
            return (found.contains(where: \.isNew), found.compactMap(\.fault))
        }
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
        /// Why the files could not be adopted together, as it was reported; nil if they were.
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
    fileprivate static let protocols = ["h2", "http/1.1"]

    var context: TLSServerContext? { state.withLock { $0.context } }
    var expiries: [String: WallTime] {
        state.withLock { state in state.loaded.expiries.merging(state.issued.expiries) { min($0, $1) } }
    }

    init(_ configuration: GatewayConfiguration, at moment: Moment) throws(TLSFault) {
        let loaded = try Loaded(configuration.settings, resuming: nil, now: moment.wall)
        state = Mutex(
            State(
                loaded: loaded, context: loaded.context, ticketKeySince: moment.monotonic,
                ticketDay: SharedTicketKeys.day(at: moment.wall)))
    }

    /// Called with each new context from now on, under a lock. Must not block.
    func follow(_ publish: @escaping @Sendable (TLSServerContext) -> Void) { state.withLock { $0.publish = publish } }

    /// Reads the files that `configuration` names. Changes nothing.
    func load(_ configuration: GatewayConfiguration, now: WallTime) throws(TLSFault) -> Loaded {
        try Loaded(configuration.settings, resuming: context, now: now)
    }

    func adopt(_ loaded: Loaded, now: WallTime) { state.withLock { $0.adopt(loaded, now: now) } }

    /// Replaces the issued certificates and challenges; returns why they cannot serve, if they cannot.
    func adopt(_ issued: Issued, now: WallTime) -> TLSFault? { state.withLock { $0.adopt(issued, now: now) } }

    /// Reads the files again that have changed, and adopts each that can be used, even if another cannot. Answers whether
    /// another context serves, and the faults that are new.
    func lookAgain(now: WallTime) -> (isNew: Bool, faults: [String]) {
        state.withLock { state in
            guard let context = state.context else { return (false, []) }
            var (isNew, faults) = state.loaded.lookAgain(now: now)
            guard isNew || state.fault != nil else { return (false, faults) }
            do throws(TLSFault) {
                try state.loaded.makeContext(resuming: context, now: now)
                state.adopt(state.loaded, now: now)
                isNew = true
            } catch {
                if error != state.fault { faults.append(error.description) }
                (state.fault, isNew) = (error, false)
            }
            return (isNew, faults)
        }
    }

    /// Why files that are there now were not adopted, and the lists of revoked certificates that cannot be used; of these the new
    /// ones alone go to `report`.
    func faults(now: WallTime, report: (String) -> Void) -> [String] {
        let (sentences, former, faults) = state.withLock { state in
            let sentences = TLSRevocationList.faults(of: state.context?.revocationLists ?? [], now: now)
            let former = state.listFaults
            state.listFaults = Set(sentences)
            return (sentences, former, state.loaded.faults + (state.fault.map { [$0.description] } ?? []))
        }
        for sentence in sentences where !former.contains(sentence) { report(sentence) }
        return faults + sentences
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

    fileprivate static func expiries(of pairs: [TLSCertificatePair]) -> [String: WallTime] {
        let leaves = pairs.compactMap { pair -> (String, WallTime)? in
            // It has been read: at most a metric is missing.
            guard let text = try? pair.certificateText(), let leaf = try? PublicKeyPin.all(in: text.rawBytes).first?.certificate
            else { return nil }
            return (leaf.hostNames.first ?? pair.certificate, leaf.expiresAt)
        }
        return Dictionary(leaves) { min($0, $1) }
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
