internal import Accounts
internal import Admin
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

    /// One for each store, and one for the accounts; none where no store is set up.
    var all: [ProbeRun.Probe] {
        guard !stores.storefronts.isEmpty else { return [] }
        let credentials = stores.storefronts.map { storefront in
            ProbeRun.Probe(name: "store \(storefront.source.rawValue)") { [now] in
                ProbeReport([StoreJudgements.credentials(storefront.source, Self.ask(storefront, now))])
            }
        }
        return credentials + [ProbeRun.Probe(name: "purchases") { history }]
    }

    /// Asks for a purchase that no store has: one whose credentials are right says so. The answer is whether there is a key; nil if the
    /// system gives no descriptor to wait with.
    static func ask(_ storefront: any Storefront, _ now: WallTime) -> Result<Bool, StorefrontFault>? {
        // Without an outcome the probe is over before; a store's own bound ends this.
        let answer = try? blocking { await Self.answer(storefront, now) }
        return answer ?? nil
    }

    private static func answer(_ storefront: any Storefront, _ now: WallTime) async -> Result<Bool, StorefrontFault> {
        var hasKey = false
        for environment in StoreEnvironment.allCases where !hasKey {
            do throws(StorefrontFault) {
                hasKey = try await storefront.newest(.unknown(to: storefront.source, environment, now), now: now) != nil
            } catch {
                return .failure(error)
            }
        }
        return .success(hasKey)
    }

    /// Looks only into tables that are there: a command over the accounts makes them otherwise.
    private var history: ProbeReport {
        do {
            let found = try StoreInspection(of: try StoreLocation(configuration))
            guard found.version == found.newest else {
                return ProbeReport([.warn("purchases", "cannot be looked at until `tollgate serve` has brought the tables up to date")])
            }
            let history = try OfflineAccounts.ask(configuration, at: EventLoop.now()) { try await StoreHistory($0.operator.purchases) }
            return ProbeReport(StoreJudgements.history(history, stores, now: now))
        } catch let fault as AccountCommandFault {
            return ProbeReport([.fail("purchases", fault.message)])
        } catch {
            return ProbeReport([.fail("purchases", "cannot be looked at: \(error)")])
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

extension Purchase {
    /// One that its store does not have, in a form that it reads.
    fileprivate static func unknown(to source: PurchaseSource, _ environment: StoreEnvironment, _ now: WallTime) -> Purchase {
        let original =
            switch source {
            case .apple: "1000000000000000"
            case .google, .revenuecat: "tollgate-doctor-asks"
            case .stripe: "sub_tollgatedoctorasks"
            }
        let status = PurchaseStatus(
            .active, product: "tollgate-doctor-asks", until: now, renews: true, transactions: [], periodStart: now, at: now)
        return Purchase(
            id: UUID(high: 0, low: 0), key: PurchaseKey(source, environment, original), account: nil, status: status, state: .active,
            until: now, product: nil, tier: nil, createdAt: now, updatedAt: now)
    }
}
