import Accounts
import Testing
import Wire

/// The same effects in any order and number give one state of the store, which is that of a model that has them in the order of time.
@Suite struct PurchaseOrderTests {
    private struct World {
        let accounts: [WireID]
        let missing: WireID
        let keys: [PurchaseKey]
        var effects: [PurchaseEffect] = []
        /// Each by one account.
        var claims: [PurchaseKey: WireID] = [:]

        /// Every time occurs once, so that the model needs no rule for two at once.
        init(_ number: Int, _ accounts: [WireID], _ random: inout SplitMix64) {
            self.accounts = accounts
            missing = newID()
            // Every other world has one purchase and many transfers, which come last.
            let sources = number % 2 == 0 ? [PurchaseSource.apple, .google, .stripe, .revenuecat] : [.revenuecat]
            keys = sources.enumerated().map {
                PurchaseKey($1, .production, "\(number)-\($0)")
            }
            let times = Array(Int64(1)...24).shuffled(using: &random)
            for time in times.prefix(16) {
                guard let key = keys.randomElement(using: &random) else { continue }
                effects.append(effect(key, at(time).now, Int64.random(in: 0..<4, using: &random), &random))
            }
            for key in keys where keys.count > 1 && Bool.random(using: &random) { claims[key] = accounts.randomElement(using: &random) }
        }

        private func effect(_ key: PurchaseKey, _ time: WallTime, _ period: Int64, _ random: inout SplitMix64) -> PurchaseEffect {
            let owner = (accounts + [missing]).randomElement(using: &random) ?? missing
            let payment = "\(key.original)/\(period)" + (key.source == .stripe && Bool.random(using: &random) ? "+" : "")
            switch Int.random(in: (keys.count == 1 ? 4 : 0)..<10, using: &random) {
            case 0..<5:
                let state = PurchaseState.allCases.randomElement(using: &random) ?? .active
                let sold = [PurchaseSource.apple: "app.pro", .google: "g.pro", .stripe: "price_pro", .revenuecat: "rc.pro"]
                let product = Bool.random(using: &random) ? sold[key.source] ?? "?" : "?"
                // At Stripe the time alone orders statuses, and a period may have several payments.
                let paidFrom = key.source == .stripe ? at(period).now : nil
                return .status(
                    key,
                    PurchaseStatus(
                        state, product: product, until: at(100 + period).now, renews: true, transactions: [payment],
                        periodStart: paidFrom == nil ? at(period).now : at(0).now, at: time, paidFrom: paidFrom))
            case 5..<7 where keys.count > 1 || time < at(6).now: return .owner(key, owner, at: time)
            case 7:
                let state = [PurchaseState.refunded, .revoked, .superseded, nil].randomElement(using: &random) ?? nil
                let transaction = Bool.random(using: &random) ? payment : key.original
                return .ended(EndedTransaction(key.source, .production, transaction, state, at: time))
            default:
                let givers = (accounts + [missing]).shuffled(using: &random).prefix(2)
                return .transfer(.revenuecat, .production, from: Array(givers), to: owner, at: time)
            }
        }

        /// The state and the account of a purchase; nil while it has no status.
        func expected(_ key: PurchaseKey) -> (state: PurchaseState, account: WireID?, product: String)? {
            var statuses: [PurchaseStatus] = []
            var ends: [String: (state: PurchaseState?, at: WallTime)] = [:]
            var moves: [(at: WallTime, owner: (WireID?) -> WireID?)] = []
            for effect in effects {
                switch effect {
                case .status(key, let status): statuses.append(status)
                case .owner(key, let owner, let time, _): moves.append((time, { _ in owner }))
                case .ended(let ended) where ended.source == key.source:
                    if ends[ended.transaction].map({ $0.at < ended.at }) ?? true { ends[ended.transaction] = (ended.state, ended.at) }
                case .transfer(key.source, _, let givers, let taker, let time):
                    moves.append((time, { $0.map { givers.contains($0) ? taker : $0 } }))
                default: break
                }
            }
            guard let status = statuses.max(by: { ($0.periodStart, $0.at) < ($1.periodStart, $1.at) }) else { return nil }
            let named = moves.sorted { $0.at < $1.at }.reduce(WireID?.none) { $1.owner($0) }
            var state = status.state
            var end: (state: PurchaseState?, at: WallTime)?
            for (transaction, said) in ends where said.state != nil && (end.map { $0.at < said.at } ?? true) {
                let isWhole = transaction == key.original && ([.google, .stripe].contains(key.source) || said.state == .superseded)
                let isOfPeriod = statuses.contains {
                    $0.transactions.contains(transaction) && ($0 == status || $0.paidFrom != nil && $0.paidFrom == status.paidFrom)
                }
                if isWhole || isOfPeriod { end = said }
            }
            state = end?.state ?? state
            return (state, named == missing ? nil : named ?? claims[key], status.product)
        }
    }

    @Test func anyOrderAndNumberGivesOneState() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        let store = bench.store
        for seed in 0..<100 {
            var random = SplitMix64(seed: UInt64(seed))
            var accounts: [WireID] = []
            for _ in 0..<3 { accounts.append(try await store.opened(nil).account.id) }
            let world = World(seed, accounts, &random)
            let most = world.keys.count == 1 ? 1 : 4
            // Each effect once to four times, by an event, a claim or an answer of the store.
            var steps = world.effects.flatMap { Array(repeating: $0, count: Int.random(in: 1...most, using: &random)) }.shuffled(
                using: &random)
            // Nothing else then has the purchase bound anew.
            if world.keys.count == 1 { steps = steps.filter(\.isTransfer) + steps.filter { !$0.isTransfer } }
            var claims = Array(world.claims).shuffled(using: &random)
            var number = 0
            while let effect = steps.popLast() {
                number += 1
                if let next = claims.last, number % 4 == 0 || steps.isEmpty {
                    claims.removeLast()
                    if world.expected(next.key) != nil { try await claim(store, next.key, next.value, world) }
                }
                // Two effects may come together.
                let effects = number % 3 == 0 ? [effect] + (steps.popLast().map { [$0] } ?? []) : [effect]
                let source = effects[0].source
                if number % 2 == 0 {
                    let event = "\(seed)-\(number)"
                    let first = try await store.hear(event, effects, source)
                    #expect(try await store.hear(event, [], source).id == first.id)
                } else {
                    _ = try await store.apply(effects, Sold.products, at(2))
                }
            }
            for (key, account) in claims where world.expected(key) != nil { try await claim(store, key, account, world) }
            for key in world.keys {
                let (found, expected) = (try await store.purchase(key), world.expected(key))
                #expect(found?.state == expected?.state && found?.account == expected?.account, "seed \(seed), \(key.original)")
                #expect(found?.status.product == expected?.product, "seed \(seed), \(key.original)")
            }
            for account in accounts { try await grants(store, account, world) }
        }
    }

    /// With a status that the store tells, because a claim has one.
    private func claim(_ store: any AccountStore, _ key: PurchaseKey, _ account: WireID, _ world: World) async throws {
        let statuses = world.effects.filter { if case .status(key, _) = $0 { true } else { false } }
        _ = try await store.claim(key, Array(statuses.prefix(1)), by: account)
    }

    /// An account has the tiers of its purchases.
    private func grants(_ store: any AccountStore, _ account: WireID, _ world: World) async throws {
        let giving = world.keys.filter { key in
            guard let expected = world.expected(key), expected.account == account, expected.product != "?" else { return false }
            return [.active, .grace, .retry].contains(expected.state)
        }
        let purchases = try await store.purchases(of: account)
        let grants = try #require(try await store.standing(of: account)).entitlement.grants
        #expect(Set(grants.map(\.key)) == Set(purchases.filter { giving.contains($0.key) }.map(\.id.text)))
        #expect(grants.count == giving.count)
    }
}

extension PurchaseEffect {
    fileprivate var isTransfer: Bool { if case .transfer = self { true } else { false } }

    fileprivate var source: PurchaseSource {
        switch self {
        case .status(let key, _), .owner(let key, _, _, _): key.source
        case .ended(let ended): ended.source
        case .transfer(let source, _, _, _, _): source
        }
    }
}
