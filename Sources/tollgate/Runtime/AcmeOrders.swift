internal import Accounts
internal import Acme
internal import Cluster
internal import Credentials
internal import Issuers
internal import Proxy
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// The certificates that an authority issues to this gateway: serves those that the database has, and orders those that are due while it
/// holds the lease. The state of an order is not kept: who takes the lease over begins anew.
final class AcmeOrders: Sendable {
    /// A holder that was killed is followed after this time, in seconds. Each step of an order is shorter.
    private static let leaseSeconds: Int64 = 30
    /// For a step that changes records in DNS, which may take two minutes.
    private static let recordSeconds: Int64 = 180
    private static let longestPause: UInt64 = 5_000
    /// A lease this old is taken anew before the next step, in seconds.
    private static let renewedAfter: Int64 = 8
    private static let challengeSeconds: Int64 = 900
    /// How often it is asked whether all gateways respond to a challenge: about a second each.
    private static let fenceTries = 6
    /// An issued certificate is kept for so many tries, while the database is away.
    private static let keepingTries = 40
    private static let pauseMilliseconds: UInt64 = 1_000

    private let active: ActiveConfiguration
    private let accounts: AccountsRuntime
    private let certificates: Certificates
    private let workers: WorkerBroadcast
    private let health: ConditionLog
    private let server = AcmeServer()
    private let rounds = Rounds()
    private let secret: [UInt8]
    /// That of the environment, for the program of `dns` challenges.
    private let variables: [(name: String, value: String)]
    private let board: Mutex<AcmeBoard>
    private let secretInterval = LogInterval(milliseconds: 600_000)
    /// In the lease: another one each time that this gateway takes it, so that it does not take an earlier one for its own.
    private let leaseID = Mutex("")

    /// nil without an authority. Throws for a refresh secret that cannot be read.
    init?(
        _ configuration: GatewayConfiguration, active: ActiveConfiguration, accounts: AccountsRuntime, certificates: Certificates,
        workers: WorkerBroadcast, health: ConditionLog, variables: [(name: String, value: String)]
    ) throws {
        guard configuration.settings.acmeDirectory != nil else { return nil }
        (self.active, self.accounts, self.certificates) = (active, accounts, certificates)
        (self.workers, self.health, self.variables) = (workers, health, variables)
        secret = try RefreshSecret.open(IssuersPlan(configuration))
        board = Mutex(AcmeBoard([], secret: secret))
        accounts.switches.follow(AcmeBoard.kind) { [self] switches, _ in read(switches) }
    }

    /// Begins to order, until `stop`.
    func start() {
        rounds.start(AccountClock(now: { EventLoop.now() }, pause: pause)) { [self] _ in
            await round()
            return Self.pauseMilliseconds
        }
    }

    /// Aborts the order under way. Blocks.
    func stop() {
        rounds.stop()
        server.stop()
        let rounds = rounds
        // Otherwise its lease ends by itself.
        _ = try? blocking(atMost: 1_000) { await rounds.ended() }
    }

    /// The names of the configuration have changed.
    func adopt() { serve(board.withLock { $0 }) }

    // MARK: operators

    var shown: [ShownCertificate] { ShownCertificate.all(active.configuration.settings, current, at: now) }

    func wish(for name: String) async throws(AccountFailure) { _ = try await set(.wish(name), ISO8601.text(now)) }

    // MARK: serving

    private func read(_ switches: [LiveSwitch]) {
        let read = AcmeBoard(switches, secret: secret)
        let isServed = board.withLock { board in
            defer { board = read }
            return board.serves(like: read)
        }
        // A lease, or a purge of caches, changes nothing that is served.
        if isServed { tell(read) } else { serve(read) }
    }

    private func serve(_ board: AcmeBoard) {
        let settings = active.configuration.settings
        let (names, now) = (settings.certificateNames, EventLoop.now().wall)
        let challenges = board.challenges(names, at: now).filter { $0.kind == .http }
        workers.post(.adoptChallenges(ChallengeResponses(challenges.map { ($0.token, $0.authorization) })))
        if let fault = certificates.adopt(board.issued(names, at: now), now: now) {
            health.log.error("issued certificates not adopted", ("error", fault.description))
        }
        health.certificatesAdopted(certificates.expiries)
        tell(board)
    }

    /// Tells readiness and metrics how the certificates are.
    private func tell(_ board: AcmeBoard) {
        let settings = active.configuration.settings
        let (names, now) = (settings.certificateNames, EventLoop.now().wall)
        let conditions = names.map { name in
            let lateAt = (board.certificate(name)?.certificate).map { RenewalState.lateAt($0) }
            return (name, RenewalCondition(lateAt: lateAt, problem: board.state(name, at: now).problem))
        }
        health.issued(Dictionary(conditions) { $1 })
    }

    // MARK: ordering

    private var now: WallTime { EventLoop.now().wall }
    private var current: AcmeBoard { board.withLock { $0 } }

    private func round() async {
        let settings = active.configuration.settings
        guard let directory = settings.acmeDirectory, !Task.isCancelled else { return }
        let (names, board) = (settings.certificateNames, current)
        let holder = board.text(.lease, at: now)
        guard holder == nil || holder == leaseID.withLock({ $0 }), !isSealedOtherwise(board) else { return }
        do throws(AccountFailure) {
            if let name = board.due(names, directory: directory, at: now) {
                return try await holding { () async throws(AccountFailure) in
                    // Another gateway may have ended its order meanwhile.
                    guard current.due([name], directory: directory, at: now) != nil else { return }
                    try await order(name, settings)
                }
            }
            let asked = names.first { name in
                board.certificate(name)?.certificate.renewalID != nil && board.state(name, at: now).asksForWindow(at: now)
            }
            if let asked { try await holding { () async throws(AccountFailure) in try await askForWindow(of: asked, settings) } }
        } catch {
            // The store's condition has been logged; the next round is soon.
        }
    }

    /// Does `work` if this gateway gets the lease, which it gives back. It must see the lease: then it knows all that came before it.
    private func holding(_ work: () async throws(AccountFailure) -> Void) async throws(AccountFailure) {
        let id = SecureRandom.bytes(12).rawBytes.array.map { String($0, radix: 16) }.joined(separator: ".")
        leaseID.withLock { $0 = id }
        guard try await takeLease(), current.text(.lease, at: now) == id else { return }
        defer { leaseTakenAt.store(.min, ordering: .relaxed) }
        let result: Result<Void, AccountFailure>
        do throws(AccountFailure) { result = .success(try await work()) } catch { result = .failure(error) }
        let version = current.version(.lease, at: now)
        if current.text(.lease, at: now) == id { _ = try await set(.lease, nil, after: version) }
        try result.get()
    }

    private let leaseTakenAt = Atomic<Int64>(.min)

    /// Takes or keeps the lease; false if another gateway has it. A step of usual length finds it young enough.
    private func takeLease(for seconds: Int64 = leaseSeconds) async throws(AccountFailure) -> Bool {
        let now = now
        let isYoung = now.seconds < leaseTakenAt.load(ordering: .relaxed) + Self.renewedAfter
        if isYoung, seconds == Self.leaseSeconds { return true }
        let until = now.advanced(seconds: seconds)
        let id = leaseID.withLock { $0 }
        let outcome = try await set(.lease, id, until: until, after: current.version(.lease, at: now))
        guard outcome != .superseded else { return false }
        leaseTakenAt.store(now.seconds, ordering: .relaxed)
        return true
    }

    private func set(
        _ subject: AcmeBoard.Subject, _ text: String?, until: WallTime? = nil, after version: Int64? = nil
    ) async throws(AccountFailure) -> SwitchOutcome {
        try await accounts.set(subject.name, to: text, until: until, after: version)
    }

    private func order(_ name: String, _ settings: Configuration) async throws(AccountFailure) {
        guard let account = try await account(), let plan = AcmePlan(name, settings, current) else { return }
        let before = current.version(.certificate(name), at: now)
        guard let key = Self.newKey() else { return }
        health.log.info("certificate ordered", ("name", name), ("authority", plan.directory), ("challenge", plan.challenge.rawValue))
        let (result, presented) = try await run(AcmeOrder(plan, account, key: key), plan, settings)
        // The certificate is kept first: a program that removes a record may take longer than the lease.
        do throws(AccountFailure) {
            try await conclude(result, of: name, after: before)
        } catch {
            if let presented { await withdraw(presented, settings) }
            throw error
        }
        if let presented { await withdraw(presented, settings) }
    }

    private func conclude(
        _ result: Result<KeptCertificate, AcmeFailure>?, of name: String, after before: Int64
    ) async throws(AccountFailure) {
        switch result {
        case nil: return health.log.info("the order was left to another gateway", ("name", name))
        case .success(let kept): try await keep(kept, of: name, after: before)
        case .failure(let failure):
            var state = current.state(name, at: now)
            state.failed(failure, at: now)
            health.orderFailed(name, failure, next: state.dueAt(nil))
            _ = try await set(.state(name), state.text)
        }
        if current.text(.wish(name), at: now) != nil { _ = try await set(.wish(name), nil) }
    }

    /// Stores the certificate, unless another gateway has stored one meanwhile. It cost an order, so it is tried again.
    private func keep(_ kept: KeptCertificate, of name: String, after version: Int64) async throws(AccountFailure) {
        let until = kept.certificate.expiresAt.advanced(seconds: 30 * 86_400)
        let sealed = current.seal(kept.text, .certificate(name))
        var state = RenewalState()
        if let former = current.certificate(name), former.directory != kept.directory { state.replaced(at: now) }
        for attempt in 1... {
            do throws(AccountFailure) {
                guard try await set(.certificate(name), sealed, until: until, after: version) != .superseded else { return }
                break
            } catch {
                guard attempt < Self.keepingTries, !Task.isCancelled else { throw error }
                await pause(milliseconds: Self.pauseMilliseconds)
            }
        }
        health.certificateIssued(name, kept.certificate)
        if state != RenewalState() {
            _ = try await set(.state(name), state.text)
        } else if current.text(.state(name), at: now) != nil {
            _ = try await set(.state(name), nil)
        }
    }

    /// Whether gateways with another secret share the database: this one must not take their account's place.
    private func isSealedOtherwise(_ board: AcmeBoard) -> Bool {
        guard board.isSealedOtherwise else { return false }
        if secretInterval.begins(at: EventLoop.now().monotonic) {
            health.log.error(
                "no certificate is ordered: the account is sealed with another secret",
                ("detail", "give all gateways of a database the same TOLLGATE_KEY_SECRET or TOLLGATE_JWT_SECRET"))
        }
        return true
    }

    /// The account of the database, whose key is made once.
    private func account() async throws(AccountFailure) -> AcmeAccount? {
        if let account = current.account { return account }
        guard let key = Self.newKey(), let pem = Self.pem(key) else { return nil }
        let outcome = try await set(.account, current.seal(pem, .account), after: 0)
        return outcome == .superseded ? nil : AcmeAccount(key: key)
    }

    /// nil if OpenSSL fails, as without memory: the next round tries again.
    private static func newKey() -> SigningKey? {
        do throws(KeyFault) { return try SigningKey.generate(.ES256) } catch { return nil }
    }

    private static func pem(_ key: SigningKey) -> [UInt8]? {
        do throws(KeyFault) { return try key.pem() } catch { return nil }
    }

    /// Carries the order's steps out; without a result if the lease was lost, or the gateway ends. The challenge that was presented is to
    /// be withdrawn.
    private func run(
        _ first: AcmeOrder, _ plan: AcmePlan, _ settings: Configuration
    ) async throws(AccountFailure) -> (Result<KeptCertificate, AcmeFailure>?, AcmeChallenge?) {
        var order = first
        var step = order.begin()
        var presented: AcmeChallenge?
        var lateness: String?
        var result: Result<KeptCertificate, AcmeFailure>?
        steps: while !Task.isCancelled {
            guard try await takeLease() else { break }
            switch step {
            case .send(let request):
                step = order.answered(await server.send(request, authorityFile: settings.acmeAuthority), now: now)
            case .present(let challenge):
                if challenge.kind == .dns { guard try await takeLease(for: Self.recordSeconds) else { break steps } }
                presented = challenge
                let problem = try await present(challenge, settings)
                if problem == nil, challenge.kind == .dns, let records = settings.acmeDNS {
                    guard try await takeLease(for: Self.recordSeconds) else { break steps }
                    if let late = await DNSRecords(records).spread(challenge) {
                        health.log.warning("a record is late", ("name", challenge.name), ("detail", late))
                        lateness = late
                    }
                }
                step = problem.map { .failed(AcmeFailure(.here, $0)) } ?? order.presented()
            case .pause(let milliseconds):
                var left = milliseconds
                while left > 0 {
                    await pause(milliseconds: min(left, Self.longestPause))
                    left -= min(left, Self.longestPause)
                    guard try await takeLease() else { break steps }
                }
                step = order.resumed()
            case .issued(let certificate, let key):
                if let pem = Self.pem(key) {
                    result = .success(KeptCertificate(directory: plan.directory, key: pem, certificate: certificate))
                }
                break steps
            case .failed(let failure):
                result = .failure(lateness.map(failure.adding) ?? failure)
                break steps
            }
        }
        return (result, presented)
    }

    // MARK: challenges

    /// Has the response to the challenge found everywhere; returns why it is not.
    private func present(_ challenge: AcmeChallenge, _ settings: Configuration) async throws(AccountFailure) -> String? {
        if challenge.kind == .dns { return await setRecord(challenge, adds: true, settings) }
        let until = now.advanced(seconds: Self.challengeSeconds)
        var outcome = try await set(.challenge(challenge.name), AcmeBoard.text(challenge), until: until)
        for _ in 0..<Self.fenceTries where outcome != .everywhere {
            outcome = await accounts.cluster.everywhere() ? .everywhere : .stored
        }
        if outcome != .everywhere {
            health.log.warning(
                "a gateway does not say that it responds to the challenge, the order continues without it", ("name", challenge.name))
        }
        return nil
    }

    private func withdraw(_ challenge: AcmeChallenge, _ settings: Configuration) async {
        if challenge.kind == .dns {
            // The record goes also if the lease cannot be kept.
            do throws(AccountFailure) { _ = try await takeLease(for: Self.recordSeconds) } catch {}
            if let problem = await setRecord(challenge, adds: false, settings) {
                health.log.warning("the record of a challenge stays", ("name", challenge.name), ("error", problem))
            }
            return
        }
        // It ends by itself.
        do throws(AccountFailure) { _ = try await set(.challenge(challenge.name), nil) } catch {}
    }

    private func setRecord(_ challenge: AcmeChallenge, adds: Bool, _ settings: Configuration) async -> String? {
        guard let records = settings.acmeDNS.map({ DNSRecords($0) }) else { return "TOLLGATE_ACME_DNS is not set" }
        return await records.set(challenge, adds: adds, variables)
    }

    // MARK: renewal

    /// Asks the authority when it wants the certificate renewed (RFC 9773), if it has an opinion.
    private func askForWindow(of name: String, _ settings: Configuration) async throws(AccountFailure) {
        guard let certificate = current.certificate(name), let id = certificate.certificate.renewalID else { return }
        let directory = await server.send(.get(certificate.directory), authorityFile: settings.acmeAuthority)
        var state = current.state(name, at: now)
        var answer = AcmeResponse()
        if let url = directory.renewalInfo {
            answer = await server.send(.get("\(url)/\(id)"), authorityFile: settings.acmeAuthority)
        }
        state.read(answer, for: certificate.certificate, at: now, random: SecureRandom.bytes(8).rawBytes.load64(0))
        _ = try await set(.state(name), state.text)
    }
}

extension AcmePlan {
    /// nil without an authority.
    fileprivate init?(_ name: String, _ settings: Configuration, _ board: AcmeBoard) {
        guard let directory = settings.acmeDirectory, let challenge = AcmeChallengeKind(rawValue: settings.acmeChallenge.rawValue) else {
            return nil
        }
        self.init(directory: directory, name: name, challenge: challenge)
        (email, profile, root) = (settings.acmeEmail, settings.acmeProfile, settings.acmeChain)
        binding = settings.acmeBinding.flatMap { line in line.macKey.map { AcmeBinding(keyID: line.keyID, key: $0) } }
        let kept = board.certificate(name)
        if let kept, kept.directory == directory { replaces = kept.certificate.renewalID }
    }
}
