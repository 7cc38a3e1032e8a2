internal import Accounts
internal import Admin
internal import Issuers
internal import Settings
internal import Storage
internal import System
internal import Threads
internal import Transport
internal import Wire

/// The probes of `tollgate doctor` that ask the stores of apps, and the accounts for the stores' notifications.
struct StoreProbes {
    let configuration: GatewayConfiguration
    let stores: Stores
    let now: WallTime

    /// One for each store, and one for the accounts; none where no store is set up. One for the services that are told of accounts, the
    /// mails to users and Apple's tokens; one for the certificates that an authority issues, and one for the live switches.
    var all: [ProbeRun.Probe] { purchases + outgoing + certificates + switches }

    private var switches: [ProbeRun.Probe] {
        let settings = configuration.settings
        return [
            ProbeRun.Probe(name: "switches") {
                guard settings.usesStore else { return ProbeReport([.ok("switches", RouteSwitches.ownNote)]) }
                return lookIntoAccounts("switches") { StoreJudgements.switches(try await $0.switches(), settings.routes.map(\.rule)) }
            }
        ]
    }

    private var outgoing: [ProbeRun.Probe] {
        let settings = configuration.settings
        guard settings.account != nil || settings.appleKey != nil || !settings.events.isEmpty || !settings.notices.isEmpty else {
            return []
        }
        return [
            ProbeRun.Probe(name: "events") { [now] in
                lookIntoAccounts("events") { accounts in
                    let known = try await accounts.operator.directory.subscriptions()
                    let queues = try await accounts.operator.directory.outgoing()
                    return settings.events.map { line in StoreJudgements.events(line.name, known.first { $0.name == line.name }) }
                        + queues.compactMap { StoreJudgements.outgoing($0, settings, now: now) }
                }
            }
        ]
    }

    private var certificates: [ProbeRun.Probe] {
        let settings = configuration.settings
        guard settings.acmeDirectory != nil else { return [] }
        return [
            ProbeRun.Probe(name: "issued certificates") { [now, configuration] in
                // The start of the gateway says why.
                guard let secret = try? RefreshSecret.open(IssuersPlan(configuration)) else {
                    return ProbeReport([.fail("issued certificates", "the secret that seals them cannot be read")])
                }
                return lookIntoAccounts("issued certificates") { accounts in
                    let board = AcmeBoard(try await accounts.switches(), secret: secret)
                    return ShownCertificate.all(settings, board, at: now).map { StoreJudgements.certificate($0) }
                }
            }
        ]
    }

    private var purchases: [ProbeRun.Probe] {
        guard !stores.storefronts.isEmpty else { return [] }
        let credentials = stores.storefronts.map { storefront in
            ProbeRun.Probe(name: "store \(storefront.source.rawValue)") { [now] in
                ProbeReport([StoreJudgements.credentials(storefront.source, Self.ask(storefront, now))])
            }
        }
        return credentials + [ProbeRun.Probe(name: "purchases") { history }]
    }

    /// Whether the store was asked with a key; nil if the system gives no descriptor to wait with.
    static func ask(_ storefront: any Storefront, _ now: WallTime) -> Result<Bool, StorefrontFault>? {
        // Without an outcome the probe is over before; a store's own bound ends this.
        let answer = try? blocking {
            do throws(StorefrontFault) {
                return Result<Bool, StorefrontFault>.success(try await storefront.probe(now: now))
            } catch {
                return .failure(error)
            }
        }
        return answer ?? nil
    }

    private var history: ProbeReport {
        lookIntoAccounts("purchases") { [stores, now] accounts in
            StoreJudgements.history(try await StoreHistory(accounts.operator.purchases), stores, now: now)
        }
    }

    /// Looks only into tables that are there: a command over the accounts makes them otherwise.
    private func lookIntoAccounts(
        _ subject: String, _ look: @escaping @Sendable (OfflineAccounts) async throws -> [Diagnosis]
    ) -> ProbeReport {
        do {
            let found = try StoreInspection(of: .configured(configuration))
            guard found.version != nil else { return ProbeReport([]) }
            guard found.version == found.newest else {
                return ProbeReport([.warn(subject, "cannot be looked at until `tollgate serve` has brought the tables up to date")])
            }
            return ProbeReport(try OfflineAccounts.ask(configuration, at: EventLoop.now(), look))
        } catch is StoreInspection.Fault {
            // The probe of the database itself says so.
            return ProbeReport([])
        } catch let fault as AccountCommandFault {
            return ProbeReport([.fail(subject, fault.message)])
        } catch {
            return ProbeReport([.fail(subject, "cannot be looked at: \(error)")])
        }
    }
}

/// Facts about what the stores have sent, and what was bought.
struct StoreHistory: Equatable, Sendable {
    /// Pages of 1,000 purchases that are read.
    private static let maxPages = 20

    /// When the newest notification of each store came.
    var newest: [PurchaseSource: WallTime]
    /// The products that were bought.
    var bought: [PurchaseSource: Set<String>] = [:]
}

extension StoreHistory {
    init(_ purchases: PurchaseAdministration) async throws {
        self.init(newest: try await purchases.newestEvents())
        var last: UUID?
        for _ in 0..<Self.maxPages {
            let page = try await purchases.purchases(of: nil, nil, after: last, limit: 1_000)
            for purchase in page { bought[purchase.key.source, default: []].insert(purchase.status.product) }
            guard let end = page.last, page.count == 1_000 else { return }
            last = end.id
        }
    }
}
