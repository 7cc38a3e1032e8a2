internal import Accounts
internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import Settings
internal import Storage
internal import Synchronization
internal import System
internal import Threads
internal import Transport
internal import Wire

/// Why a command over the accounts was not carried out.
struct AccountCommandFault: Error {
    let message: String
    /// 2 where other words would have been right.
    var exitCode: Int32 = 1
}

/// The accounts as one command has them: opened for it and closed behind it, whether a gateway runs or not. Those that run
/// are told to look into the store, and look by themselves soon enough.
struct OfflineAccounts: Sendable {
    private let directory: AccountDirectory
    private let administration: Administration
    private let purchases: PurchaseAdministration
    private let plan: OperatorPlan
    let trusts: [TrustDeclaration]
    let routes: [RouteRule]
    /// Whether gateways of this configuration open the store.
    let usesStore: Bool
    /// Those that are set up.
    let providers: [Provider]
    private let store: any AccountStore
    private let clock: AccountClock
    private let reason = StoreReason()

    static func run(_ work: @escaping Command.OverAccounts, _ configuration: GatewayConfiguration, at start: Moment) -> CommandResult {
        do throws(AccountCommandFault) {
            return try ask(configuration, at: start, work)
        } catch {
            return .failed(error.message, exitCode: error.exitCode)
        }
    }

    /// The answer to `question`.
    static func ask<Answer: Sendable>(
        _ configuration: GatewayConfiguration, at start: Moment, _ question: @escaping @Sendable (OfflineAccounts) async throws -> Answer
    ) throws(AccountCommandFault) -> Answer {
        let result: Result<Answer, AccountCommandFault>?
        do {
            let announcement = ChangeAnnouncement()
            let opened = try StoreLocation(configuration).open(
                connections: 1, start: WorkerThread.start, onChange: { _ in announcement.record() })
            guard let store = opened, let work = PasswordWork(threads: 1, queue: 1, start: WorkerThread.start)
            else { throw AccountCommandFault(message: "threads cannot be started, end some processes and try again") }
            let stores = CommandStores(configuration)
            let accounts = OfflineAccounts(store, work, configuration, stores, start)
            // Without a limit of its own: the store bounds every wait.
            result = try blocking {
                let result = await accounts.result(of: question)
                work.close()
                stores.stop()
                await store.close()
                return result
            }
            announcement.publish(configuration)
        } catch let fault as AccountCommandFault {
            throw fault
        } catch {
            throw AccountCommandFault(message: "the accounts cannot be opened: \(error)")
        }
        guard let result else { throw AccountCommandFault(message: "the accounts did not answer") }
        return try result.get()
    }

    private init(
        _ store: SQLStore, _ work: PasswordWork, _ configuration: GatewayConfiguration, _ stores: CommandStores, _ start: Moment
    ) {
        let clock = Self.clock(from: start)
        let reason = reason
        let context = AccountContext(store: store, clock: clock, notice: { reason.note($0) })
        directory = AccountDirectory(context: context)
        administration = Administration(context: context, work: work, actor: .command)
        // A store whose files were changed since the configuration was read counts as none.
        purchases = PurchaseAdministration(context: context, stores: { (try? stores.stores()) ?? .none }, actor: .command)
        plan = OperatorPlan(configuration.settings)
        trusts = configuration.settings.trusts
        routes = configuration.settings.routes.map(\.rule)
        usesStore = configuration.settings.usesStore
        providers = configuration.settings.providers.map(\.name)
        self.store = store
        self.clock = clock
    }

    /// The time that the command was given, and what has passed since.
    private static func clock(from start: Moment) -> AccountClock {
        let opened = EventLoop.now().monotonic
        return AccountClock(
            now: {
                let passed = EventLoop.now().monotonic.nanoseconds(since: opened)
                return Moment(
                    monotonic: MonotonicTime(nanoseconds: start.monotonic.nanoseconds + passed),
                    wall: WallTime(microseconds: start.wall.microseconds + Int64(passed / 1_000)))
            }, pause: pause)
    }

    func switches() async throws(AccountFailure) -> [LiveSwitch] { try await directory.switches() }

    /// Whether a gateway of the store runs.
    func hasGateway() async throws(StoreFault) -> Bool { try await !store.gateways(besides: UUID(high: 0, low: 0)).isEmpty }

    func set(_ name: String, to value: String?, until: WallTime? = nil) async throws(AccountFailure) {
        _ = try await directory.set(name, to: value, until: until, after: nil)
    }

    func appUses(since day: Int64) async throws(AccountFailure) -> [AppUse] { try await directory.appUses(since: day) }

    var `operator`: Operator {
        Operator(directory: directory, administration: administration, purchases: purchases, plan: plan, now: clock.now().wall)
    }

    private func result<Answer: Sendable>(
        of question: @Sendable (OfflineAccounts) async throws -> Answer
    ) async -> Result<Answer, AccountCommandFault> {
        do {
            // A change bears the time at which it is begun: a gateway does not look for those from before it connected.
            try await store.prepare()
            // Reads the clock of the store.
            _ = try await directory.changes(since: nil)
            return .success(try await question(self))
        } catch let fault as AccountCommandFault {
            return .failure(fault)
        } catch let refusal as OperatorRefusal {
            return .failure(AccountCommandFault(refusal))
        } catch let error as AccountError<CreationRefusal> {
            return .failure(AccountCommandFault(message: error.sentence(reason.last)))
        } catch let error as AccountError<AdministrationRefusal> {
            return .failure(AccountCommandFault(message: error.sentence(reason.last)))
        } catch let error as AccountError<InquiryRefusal> {
            return .failure(AccountCommandFault(message: error.sentence(reason.last)))
        } catch let failure as AccountFailure {
            return .failure(AccountCommandFault(message: failure.sentence(reason.last)))
        } catch let fault as SystemFault {
            return .failure(AccountCommandFault(message: fault.description))
        } catch {
            let reason = (error as? StoreFault)?.reason ?? "\(error)"
            return .failure(AccountCommandFault(message: "the accounts cannot be opened: \(reason)"))
        }
    }
}

extension AccountCommandFault {
    fileprivate init(_ refusal: OperatorRefusal) {
        switch refusal {
        case .malformedName(let name, let fault): self.init(message: "\(quoted(name)): \(fault.message)", exitCode: 2)
        case .tier(let fault): self.init(message: fault.message(end: "--until"), exitCode: 2)
        case .malformedReason: self.init(message: "--reason has more than 200 bytes or a control character", exitCode: 2)
        case .attributes(let fault): self.init(message: fault.attributesMessage, exitCode: 2)
        case .unknownName(let name): self.init(message: "no account has the id or email \(quoted(name)), `tollgate user list` shows them")
        case .unknownSubject(let subject):
            self.init(message: "there is no account of \(quoted(subject.text)), `tollgate user set-tier` makes one")
        case .noPasskey(let account):
            self.init(message: "\(account.shownName) has no passkey of this id, `tollgate user show` lists them", exitCode: 1)
        case .notMerged(let account):
            self.init(
                message: "no account of this id was merged into \(account.shownName), `tollgate user show` lists those that are announced")
        case .apiKey(.tooMany): self.init(message: APIKeyChoice.Fault.tooMany.message())
        case .apiKey(let fault): self.init(message: fault.message("--"), exitCode: 2)
        case .unknownAPIKey: self.init(message: "there is no key with this id, `tollgate key list` shows them")
        case .unknownSession: self.init(message: "there is no session with this id")
        case .ownTier: self.init(message: "only the tiers of outside issuers' users are cached, name one as NAME:SUBJECT")
        case .unknownEvent: self.init(message: "there is no event with this id, `tollgate events list` shows them")
        case .unknownSubscriber(let name):
            self.init(message: "events were never sent to \(quoted(name)): name a TOLLGATE_EVENTS_ line of a gateway that runs")
        case .notGranted(let account, let actor):
            let name = account.email?.text ?? account.id.text
            self.init(message: "\(name) may not act as \(actor.type) \(actor.id), `tollgate user show` lists the grants")
        }
    }
}

/// The store's last reason for a failure.
private final class StoreReason: Sendable {
    private let text = Mutex<String?>(nil)

    var last: String? { text.withLock { $0 } }

    func note(_ notice: AccountNotice) {
        switch notice {
        case .storeFailed(let reason), .storeAway(let reason): text.withLock { $0 = reason }
        // Notices about sessions, tokens and merges: no command creates any, or the command says so itself.
        case .refreshStorm, .refreshReuse, .refreshAhead, .cannotSign, .merged, .mergeTaken, .mergeUntaken, .appleAway, .outgoing, .waiting:
            break
        }
    }
}

extension AccountError<CreationRefusal> {
    /// For the operator; `reason` is the store's.
    fileprivate func sentence(_ reason: String?) -> String {
        switch self {
        case .refused(.unfitPassword(let faults)): faults.djangoSentence
        case .refused(.idTaken): "the id belongs to another account"
        case .refused(.emailTaken): "the email belongs to another account"
        case .refused(.identityTaken(let key, let user)):
            "the identity \(key.source.name):\(key.subject) belongs to another account, \(user.text)"
        case .failed(let failure): failure.sentence(reason)
        }
    }
}

extension AccountError<AdministrationRefusal> {
    fileprivate func sentence(_ reason: String?) -> String {
        switch self {
        case .refused(.noSuchAccount): "the account was deleted meanwhile"
        case .failed(let failure): failure.sentence(reason)
        }
    }
}

extension AccountError<InquiryRefusal> {
    fileprivate func sentence(_ reason: String?) -> String {
        switch self {
        case .refused(.noSuchPurchase): "there is no purchase with this id, `tollgate purchases list` shows them"
        case .refused(.noSuchEvent): "there is no store event with this id; events are kept for 400 days"
        case .refused: sentence ?? ""
        case .failed(let failure): failure.sentence(reason)
        }
    }
}

extension AccountFailure {
    fileprivate func sentence(_ reason: String?) -> String {
        switch self {
        case .overloaded: "there is no memory to hash a password, try again"
        case .unavailable, .broken: "the accounts do not answer: \(reason ?? "the store gives no reason")"
        case .tooManyAttempts, .rejected: "the accounts refused: \(self)"
        case .banned(let ban): "the account is banned \(ban.until.map { "until \(ISO8601.text($0))" } ?? "for good"), lift the ban first"
        }
    }
}
