internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Proxy
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Wire

/// The configuration, keys and admin token in force. Publishes the policy that they make to the workers.
final class ActiveConfiguration: Sendable {
    private struct State {
        var configuration: GatewayConfiguration
        var keys: IssuerKeys
        /// Signs tokens. It follows `keys` once the workers were posted the policy by which they verify them.
        var signingKey: SigningKey
        /// Keys of another generation were fetched for an earlier configuration, and are ignored.
        var keysGeneration: UInt64 = 0
        var policyVersion = 1
        /// The values that were set for routes while gateways run.
        var switches = RouteSwitches()
        var networks: NetworkLists
        var labels: MetricLabels
        /// nil without an admin listener.
        var adminToken: AdminToken?
        /// The policy built last.
        var policy: Policy?
        var former = FormerPolicies()
    }

    let loads: LoadHistory
    private let workers: WorkerBroadcast
    private let log: ServerLog
    /// That of the workers' limiter.
    private let limitHash: KeyedHash
    private let state: Mutex<State>
    /// Held while a policy is built and posted: workers get policies in the order in which they came into force, and never
    /// the routes of one configuration with the upstreams of another.
    private let publishing = Mutex<Void>(())

    init(
        _ configuration: GatewayConfiguration, keys: IssuerKeys, networks: NetworkLists = NetworkLists(), labels: MetricLabels,
        adminToken: AdminToken?, limitHash: KeyedHash, workers: WorkerBroadcast, log: ServerLog, now: WallTime
    ) {
        loads = LoadHistory(at: now)
        self.workers = workers
        self.log = log
        self.limitHash = limitHash
        state = Mutex(
            State(
                configuration: configuration, keys: keys, signingKey: keys.ownRing.active, networks: networks, labels: labels,
                adminToken: adminToken))
        log.write(adminToken)
    }

    var configuration: GatewayConfiguration { state.withLock { $0.configuration } }
    var keys: IssuerKeys { state.withLock { $0.keys } }
    /// The key that signs tokens now: every worker verifies what it has signed.
    var signingKey: SigningKey { state.withLock { $0.signingKey } }
    var adminToken: AdminToken? { state.withLock { $0.adminToken } }

    /// The public halves of the gateway's own keys, as a JWK Set (RFC 7517, 5).
    func publicKeys(now: WallTime) -> [UInt8] { keys.own?.jwks(now: now) ?? Array(#"{"keys":[]}"#.utf8) }

    /// The name of an outside issuer by its index in the policy; nil for the gateway's own.
    func issuerName(_ index: Int) -> String? {
        state.withLock { state in
            state.configuration.settings.trusts.indices.contains(index) ? state.configuration.settings.trusts[index].name : nil
        }
    }

    /// The policy of what is in force at `now`.
    func policy(now: WallTime) throws(RouteFault) -> Policy {
        let state = state.withLock { $0 }
        let plain = try PolicyBuilder.policy(
            state.configuration, keys: state.keys, switches: state.switches, networks: state.networks.sets, version: state.policyVersion,
            now: now)
        let policy = Policy(plain, limitsBy: limitHash)
        replace(by: policy)
        return policy
    }

    private func replace(by policy: Policy) {
        state.withLock { state in
            guard policy.version >= state.policy?.version ?? 0 else { return }
            if let former = state.policy { state.former.add(former) }
            state.policy = policy
        }
    }

    /// Frees the policies that no worker uses any more. Called about once a second.
    func releaseFormerPolicies() {
        // They are freed when this returns, outside the lock.
        _ = state.withLock { $0.former.takeUnused() }
    }

    /// The policy in force, as the workers have it or are about to. Traps before the first `policy(now:)`.
    var currentPolicy: Policy {
        guard let policy = state.withLock({ $0.policy }) else { preconditionFailure("no policy was built") }
        return policy
    }

    /// A document about the gateway as an issuer of tokens.
    func metadata(isOpenID: Bool) -> LocalResponse {
        let (configuration, keys) = state.withLock { ($0.configuration, $0.keys) }
        let own = currentPolicy.rules.map(\.target)
        var algorithms: [String] = []
        for name in keys.ownRing.entries.map(\.key.algorithm.name) where !algorithms.contains(name) { algorithms.append(name) }
        let metadata = ServerMetadata(
            issuer: configuration.settings.issuer, publicURL: configuration.settings.publicURL, algorithms: algorithms)
        return metadata.response(
            isOpenID: isOpenID, refreshes: own.contains(.local(LocalEndpoint.token.rawValue)),
            revokes: own.contains(.local(LocalEndpoint.revocation.rawValue)),
            introspects: own.contains(.local(LocalEndpoint.introspection.rawValue)))
    }

    /// The metadata of the resource whose document is at this path.
    func resourceMetadata(at path: String) -> LocalResponse {
        let settings = configuration.settings
        for resource in settings.resources where ResourceDeclaration.metadataPath + (resource.path == "/" ? "" : resource.path) == path {
            let servers = resource.issuers.compactMap { name in settings.trusts.first { $0.name == name }?.issuer }
            let url = resource.resource(settings.publicURL).url
            let proofs = settings.routes.map(\.rule).filter { $0.resource?.url == url }.map(\.proof)
            return ResourceMetadata(url: url, servers: servers, scopes: resource.scopes, proofs: proofs).response
        }
        return .plain(404, "not found\n")
    }

    /// Publishes a policy with other keys, unless they belong to an earlier configuration. Any thread.
    func keysChanged(_ keys: IssuerKeys, now: WallTime) {
        publishing.withLock { _ in
            let isCurrent = state.withLock { state in
                guard keys.generation == state.keysGeneration else { return false }
                state.keys = keys
                state.policyVersion += 1
                return true
            }
            guard isCurrent else { return }
            do throws(RouteFault) {
                workers.post(.adoptPolicy(try policy(now: now)))
                state.withLock { $0.signingKey = keys.ownRing.active }
            } catch {
                // The same routes made the policy in force, which stays.
                log.error("keys not adopted", ("error", "\(error)"))
            }
        }
    }

    /// Publishes a policy with other switches. Any thread.
    func switched(now: WallTime, _ change: (inout RouteSwitches) -> Void) {
        publishing.withLock { _ in
            let isNew = state.withLock { state in
                let former = state.switches
                change(&state.switches)
                guard state.switches != former else { return false }
                // The first policy is built later, with them.
                guard state.policy != nil else { return false }
                state.policyVersion += 1
                return true
            }
            if isNew { postPolicy(now) }
        }
    }

    /// Publishes a policy with what the files of networks have now, if one has changed. Returns the faults of all. Main thread: no reload
    /// comes meanwhile.
    func lookAtNetworks(now: WallTime) -> [String] {
        var networks = state.withLock { $0.networks }
        let found = networks.lookAgain()
        guard !found.changed.isEmpty || !found.faults.isEmpty else { return networks.faults }
        for fault in found.faults { log.error("a list of networks is not adopted, the former stays in force", ("error", fault)) }
        publishing.withLock { _ in
            state.withLock { state in
                state.networks = networks
                if !found.changed.isEmpty { state.policyVersion += 1 }
            }
            if !found.changed.isEmpty { postPolicy(now) }
        }
        for path in found.changed { log.info("a list of networks has changed", ("file", path)) }
        return networks.faults
    }

    private func postPolicy(_ now: WallTime) {
        do throws(RouteFault) {
            workers.post(.adoptPolicy(try policy(now: now)))
        } catch {
            log.error("live switches or lists of networks not adopted", ("error", "\(error)"))
        }
    }

    /// The policy that a reload publishes, with the keys beside it.
    struct Publication {
        let configuration: GatewayConfiguration
        let keys: IssuerKeys
        /// Without its number.
        let policy: Policy
        let switches: RouteSwitches
        let networks: NetworkLists
        let now: WallTime
    }

    /// Reads the keys of a configuration and builds its policy. Changes nothing.
    func prepare(_ next: NextConfiguration) throws -> Publication {
        let keys = try KeySetRefresher.load(IssuersPlan(next.configuration), at: next.moment, earlier: keys)
        let (switches, earlier) = state.withLock { ($0.switches, $0.networks) }
        let networks = try NetworkLists(next.configuration.settings, earlier: earlier)
        let policy = try PolicyBuilder.policy(
            next.configuration, keys: keys, switches: switches, networks: networks.sets, version: 0, now: next.moment.wall)
        return Publication(
            configuration: next.configuration, keys: keys, policy: policy, switches: switches, networks: networks, now: next.moment.wall)
    }

    /// Brings a prepared configuration into force. Keys that are fetched for an earlier one are ignored from now on.
    func publish(
        _ next: Publication, _ adminToken: AdminToken?, _ upstreams: [UpstreamSnapshot], fetchingBy keySets: KeySetRefresher
    ) {
        log.write(adminToken)
        let generation = keySets.nextGeneration()
        publishing.withLock { _ in
            let (labels, version) = state.withLock { state in
                state.configuration = next.configuration
                state.keys = next.keys
                state.networks = next.networks
                state.keysGeneration = generation
                state.policyVersion += 1
                state.labels.declare(next.configuration)
                state.adminToken = adminToken
                return (state.labels, state.policyVersion)
            }
            let policy = Policy(next.policy, limitsBy: limitHash, version: version)
            replace(by: policy)
            workers.post(.adopt(policy, upstreams, WorkerSettings(next.configuration, workers: workers.mailboxes.count), labels))
            let isOutdated = state.withLock { state in
                state.signingKey = next.keys.ownRing.active
                guard state.switches != next.switches else { return false }
                state.policyVersion += 1
                return true
            }
            if isOutdated { postPolicy(next.now) }
        }
        keySets.adopt(IssuersPlan(next.configuration), own: next.keys.ownRing, generation: generation)
    }
}

extension ServerLog {
    /// A token that was just generated is logged this once.
    fileprivate func write(_ token: AdminToken?) {
        guard let token, token.isNew else { return }
        info("generated admin token (shown once)", ("token", String(decoding: token.bytes, as: UTF8.self)))
    }
}

extension AdminToken {
    /// nil without an admin listener and console: there is nowhere to present a token, so none is made and announced.
    static func open(_ settings: Configuration) throws(SystemFault) -> AdminToken? {
        guard !settings.adminListeners.isEmpty || settings.hasConsoleOnMain else { return nil }
        return try open(configured: settings.adminToken, dataDirectory: settings.dataDirectory)
    }
}
