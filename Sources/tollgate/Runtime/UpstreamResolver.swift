internal import Gate
internal import Proxy
internal import Settings
internal import Synchronization
internal import System
internal import Transport
internal import Wire

/// Resolves the names of upstreams: at the start and at each reload, then every `TOLLGATE_DNS_REFRESH` on a thread of its own.
final class UpstreamResolver: Part, Sendable {
    private struct State {
        var upstreams: [UpstreamDeclaration]
        var contexts: AuthorityContexts
        /// Between two rounds of lookups, in milliseconds; getaddrinfo(3) gives no TTL.
        var interval: Int32
        /// Counts configurations: addresses resolved for an earlier one are ignored.
        var generation = 0
        /// While a reload is applied and not published: addresses that were reported now would be replaced by older ones, those of the
        /// configuration.
        var isHeld = false
        /// Whether the lookups of the latest snapshots have all succeeded.
        var isComplete = true
        var known: [String: [UpstreamAddress]] = [:]
        /// Of the latest round. A name whose lookup fails keeps its answer.
        var answers = NameAnswers()
        /// By name, and kept for removed upstreams: connections may still be open when a reload brings one back.
        var connections: [String: ConnectionBudget] = [:]
    }

    /// Resolves a host. Blocking.
    typealias LookUp = @Sendable (_ host: String, _ port: UInt16) throws(SystemFault) -> [SocketAddress]
    /// Looks up the SRV records of a name. Blocking.
    typealias ServiceLookUp = @Sendable (_ name: String) throws(SystemFault) -> [ServiceRecord]

    /// Milliseconds after a failed lookup, if the interval is not shorter.
    private static let retryInterval: Int32 = 5_000
    /// SRV records of one name that are used, those of the lowest priorities.
    private static let maxRecords = 256

    private let state: Mutex<State>
    private let thread: RecurringThread
    private let log: ServerLog
    private let lookUp: LookUp
    private let lookUpService: ServiceLookUp
    private let changed: @Sendable (String, [UpstreamAddress]) -> Void

    /// `changed` is called on the resolver's thread, under its lock, when an upstream's addresses differ; it must not call
    /// this resolver.
    init(
        _ upstreams: [UpstreamDeclaration], every milliseconds: UInt32, log: ServerLog,
        lookUp: @escaping LookUp = Resolver.resolve,
        lookUpService: @escaping ServiceLookUp = { name throws(SystemFault) in try Resolver.services(name) },
        changed: @escaping @Sendable (String, [UpstreamAddress]) -> Void
    ) throws {
        state = Mutex(
            State(upstreams: upstreams, contexts: try AuthorityContexts(upstreams), interval: Int32(clamping: milliseconds)))
        self.lookUp = lookUp
        self.lookUpService = lookUpService
        thread = try RecurringThread()
        self.log = log
        self.changed = changed
    }

    /// The upstreams with their present addresses. Blocks while names are resolved.
    func snapshots() -> [UpstreamSnapshot] {
        let (upstreams, contexts, answers) = state.withLock { ($0.upstreams, $0.contexts, $0.answers) }
        var round = LookUpRound(earlier: answers)
        let snapshots = upstreams.map { upstream in
            UpstreamSnapshot(
                settings: upstream.settings, addresses: resolve(upstream, contexts[upstream], &round),
                connections: connections(upstream.name))
        }
        state.withLock { state in
            state.answers = round.answers
            state.isComplete = round.failures == 0
            for snapshot in snapshots { state.known[snapshot.settings.name] = snapshot.addresses }
        }
        return snapshots
    }

    private func connections(_ upstream: String) -> ConnectionBudget {
        state.withLock { state in
            let budget = state.connections[upstream] ?? ConnectionBudget()
            state.connections[upstream] = budget
            return budget
        }
    }

    func prepare(_ next: NextConfiguration) throws -> Commit {
        try prepare(next.configuration.settings.upstreams, every: next.configuration.settings.dnsRefreshMilliseconds)
    }

    /// Prepares a change of the upstreams, which `snapshots` has once it is applied. No change of addresses is reported until it is
    /// published. Throws for a file of authorities that cannot be used.
    func prepare(_ upstreams: [UpstreamDeclaration], every milliseconds: UInt32) throws -> Commit {
        let contexts = try AuthorityContexts(upstreams, earlier: state.withLock { $0.contexts })
        return Commit { [self] in
            state.withLock { state in
                state.upstreams = upstreams
                state.contexts = contexts
                state.interval = Int32(clamping: milliseconds)
                state.generation += 1
                state.isHeld = true
            }
        } published: { [self] in
            state.withLock { state in
                state.generation += 1
                state.isHeld = false
            }
            // Repeats look-ups that failed, too.
            thread.runSoon()
        }
    }

    /// Reads the certificates and authorities of upstreams again that have changed: new connections use them, and idle ones are closed.
    /// Returns why some are not used. Main thread.
    func lookAtCertificates() -> [String] {
        let (upstreams, before) = state.withLock { ($0.upstreams, $0.contexts) }
        var contexts = before
        let found = contexts.lookAgain()
        guard !found.changed.isEmpty || !found.faults.isEmpty else { return contexts.faults }
        for fault in found.faults { log.error("a certificate for upstreams is not adopted, the former stays", ("error", fault)) }
        state.withLock { state in
            state.contexts = contexts
            // Addresses that are being looked up have the former ones.
            state.generation += 1
            for upstream in upstreams where found.changed.contains(AuthorityContexts.Key(upstream)) {
                let addresses = (state.known[upstream.name] ?? []).map { $0.tls == nil ? $0 : UpstreamAddress($0, tls: contexts[upstream]) }
                state.known[upstream.name] = addresses
                changed(upstream.name, addresses)
            }
        }
        return contexts.faults
    }

    func start() throws {
        try thread.start(name: "resolver", after: firstPause) { [self] in
            pause(isComplete: lookAgain())
        }
    }

    /// From the start to the first round, in milliseconds.
    var firstPause: Int32 { pause(isComplete: state.withLock { $0.isComplete }) }

    private func pause(isComplete: Bool) -> Int32 {
        let interval = state.withLock { $0.interval }
        return isComplete ? interval : min(interval, Self.retryInterval)
    }

    /// Ends the thread, and waits for one lookup at most.
    func stop() { thread.stop() }

    var isStopping: Bool { thread.isStopping }

    // MARK: the thread

    /// Resolves every name and reports changes; false if a lookup has failed.
    func lookAgain() -> Bool {
        let (upstreams, contexts, generation, answers) = state.withLock { ($0.upstreams, $0.contexts, $0.generation, $0.answers) }
        var round = LookUpRound(earlier: answers)
        for upstream in upstreams where upstream.hasNames {
            let failures = round.failures
            let addresses = resolve(upstream, contexts[upstream], &round)
            guard !addresses.isEmpty || round.failures == failures else { continue }
            state.withLock { state in
                let known = state.known[upstream.name] ?? []
                // Name servers rotate their answers, so the order says nothing.
                guard !state.isHeld, state.generation == generation, Set(addresses.map(\.place)) != Set(known.map(\.place)) else { return }
                state.known[upstream.name] = addresses
                // Under the lock, so that addresses of an earlier configuration never follow those of a later one.
                changed(upstream.name, addresses)
            }
        }
        let (latest, isComplete) = (round.answers, round.failures == 0)
        state.withLock { state in
            if state.generation == generation { state.answers = latest }
        }
        return isComplete
    }

    private func resolve(
        _ upstream: UpstreamDeclaration, _ tls: TLSClientContext?, _ round: inout LookUpRound
    ) -> [UpstreamAddress] {
        var addresses: [UpstreamAddress] = []
        for base in upstream.bases {
            switch base.endpoint {
            case .unix(let path): addresses.append(UpstreamAddress(.unix(path), base, serverName: base.hostField, upstream, tls))
            case .host(let host, let port):
                addresses += self.addresses(of: host, port, upstream, &round).map {
                    UpstreamAddress($0, base, serverName: host, upstream, tls)
                }
            case .service(let name): addresses += resolve(service: name, base, upstream, tls, &round)
            }
        }
        return addresses
    }

    private func addresses(
        of host: String, _ port: UInt16, _ upstream: UpstreamDeclaration, _ round: inout LookUpRound
    ) -> [SocketAddress] {
        let name = NameAnswers.Host(name: host, port: port)
        if round.failedHosts.contains(name) { round.failures += 1 }
        if let found = round.answers.hosts[name] { return found }
        guard !isStopping else { return round.stopped(round.earlier.hosts[name]) }
        do {
            round.answers.hosts[name] = try lookUp(host, port)
        } catch {
            round.failures += 1
            round.failedHosts.insert(name)
            round.answers.hosts[name] = round.earlier.hosts[name]
            report("a name has no address", error, upstream, isKept: round.answers.hosts[name] != nil)
        }
        return round.answers.hosts[name] ?? []
    }

    /// The addresses of a service's targets, each once. Those of one target share its weight.
    private func resolve(
        service name: String, _ base: UpstreamBase, _ upstream: UpstreamDeclaration, _ tls: TLSClientContext?,
        _ round: inout LookUpRound
    ) -> [UpstreamAddress] {
        var found: [UpstreamAddress] = []
        var seen: Set<SocketAddress> = []
        // Without a target, the service is said not to exist (RFC 2782): nothing to connect to.
        for record in records(of: name, upstream, &round).prefix(Self.maxRecords) where !record.target.isEmpty && record.port > 0 {
            let addresses = addresses(of: record.target, record.port, upstream, &round).filter { seen.insert($0).inserted }
            for address in addresses {
                found.append(
                    UpstreamAddress(
                        address, base, serverName: base.hostField, upstream, tls, rank: AddressRank(record, of: addresses.count)))
            }
        }
        return found
    }

    private func records(of name: String, _ upstream: UpstreamDeclaration, _ round: inout LookUpRound) -> [ServiceRecord] {
        if round.failedServices.contains(name) { round.failures += 1 }
        if let found = round.answers.services[name] { return found }
        guard !isStopping else { return round.stopped(round.earlier.services[name]) }
        do {
            round.answers.services[name] = try lookUpService(name)
        } catch {
            round.failures += 1
            round.failedServices.insert(name)
            round.answers.services[name] = round.earlier.services[name]
            report("a service has no servers", error, upstream, isKept: round.answers.services[name] != nil)
        }
        return round.answers.services[name] ?? []
    }

    private func report(_ message: StaticString, _ error: SystemFault, _ upstream: UpstreamDeclaration, isKept: Bool) {
        log.warning(
            message, ("upstream", upstream.name), ("error", error.description),
            ("detail", isKept ? "the last known addresses stay in use" : "requests get 503 until it has some"))
    }
}

/// The answers of name servers, by name.
struct NameAnswers {
    struct Host: Hashable {
        let name: String
        let port: UInt16
    }

    var hosts: [Host: [SocketAddress]] = [:]
    var services: [String: [ServiceRecord]] = [:]
}

/// One pass over all upstreams: each name is looked up once, and names that are not used any more are forgotten.
private struct LookUpRound {
    let earlier: NameAnswers
    var answers = NameAnswers()
    /// Lookups that failed, counted for each use of their name.
    var failures = 0
    var failedHosts: Set<NameAnswers.Host> = []
    var failedServices: Set<String> = []

    /// The resolver is stopping: what was known stays.
    mutating func stopped<Answer>(_ earlier: [Answer]?) -> [Answer] {
        failures += 1
        return earlier ?? []
    }
}

/// An address and everything about it that DNS says.
private struct AddressPlace: Hashable {
    let address: SocketAddress
    let authority: String
    let pathPrefix: String
    let rank: AddressRank
}

extension UpstreamAddress {
    fileprivate var place: AddressPlace {
        AddressPlace(address: address, authority: authority, pathPrefix: pathPrefix, rank: rank)
    }
}

extension AddressRank {
    /// A weight of 0 is a very small share (RFC 2782), here a hundredth of a weight of 1.
    fileprivate init(_ record: ServiceRecord, of addresses: Int) {
        self.init(priority: Int(record.priority), weight: (record.weight == 0 ? 1 : Int(record.weight) * 100) / addresses)
    }
}

extension UpstreamDeclaration {
    /// Whether any base URL needs looking up.
    fileprivate var hasNames: Bool {
        bases.contains { base in
            switch base.endpoint {
            case .host(let host, _): Resolver.numeric(host) == nil
            case .service: true
            case .unix: false
            }
        }
    }
}

extension UpstreamAddress {
    fileprivate convenience init(
        _ address: SocketAddress, _ base: UpstreamBase, serverName: String, _ upstream: UpstreamDeclaration, _ tls: TLSClientContext?,
        rank: AddressRank = AddressRank()
    ) {
        self.init(
            address: address, tls: base.isTLS ? tls : nil, serverName: upstream.tlsName ?? serverName, authority: base.hostField,
            pathPrefix: base.pathPrefix, speaksHTTP2: upstream.speaksHTTP2, rank: rank)
    }
}
