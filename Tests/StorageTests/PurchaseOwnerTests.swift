import Accounts
import Credentials
import Testing
import Wire

@testable import Storage

private let (claimed, named) = (PurchaseKey(.apple, .production, "c"), PurchaseKey(.google, .sandbox, "n"))

/// Purchases whose accounts come and go, in every store.
@Suite struct PurchaseOwnerTests {
    private func purchased(_ store: any AccountStore, _ account: WireID) async throws -> Int? {
        try await store.standing(of: account)?.entitlement.purchased.count
    }

    /// All that a guest bought is the account's with which it is merged, also what stores tell of only later.
    @Test(arguments: Backend.allCases) func purchasesMoveWithAMerge(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = try #require(bench.store as? SQLStore)
        let (guest, ada) = (try await store.opened(nil).account.id, try await store.opened("ada@x").account.id)
        _ = try await store.claim(claimed, [.status(claimed, Sold.status(paid: ["c"]))], by: guest)
        let status = PurchaseEffect.status(named, Sold.status(.active, "g.pro", paid: []))
        let owner = PurchaseEffect.owner(named, guest, at: at(1).now)
        try await store.hear("e", [status, owner], .google)
        #expect(try await purchased(store, guest) == 2)
        try await store.database.write { sql throws(SQLFault) in
            try sql.lockPurchases()
            try sql.movePurchases(from: guest, to: ada, at(3))
        }
        #expect(try await purchased(store, guest) == 0)
        #expect(try await purchased(store, ada) == 2)
        _ = try await store.delete(guest, at(4))
        // A renewal, and a first word of another purchase; both name the guest.
        let late = PurchaseKey(.revenuecat, .production, "l")
        #expect(try await store.hear("renewal", [status, .owner(named, guest, at: at(60).now)], .google).verdict == .applied)
        let word: [PurchaseEffect] = [.status(late, Sold.status(.active, "rc.pro")), .owner(late, guest, at: at(70).now)]
        #expect(try await store.hear("late", word, .revenuecat).purchases.map(\.account) == [ada])
        #expect(try await purchased(store, ada) == 3)
        #expect(try await store.claim(named, [status, owner], by: ada).purchase?.account == ada, "by an older transaction")
        // A later transfer from the taker passes on what it got by the merge; one before the store named it does not.
        let bob = try await store.opened("bob@x").account.id
        for (time, holder) in [(Int64(69), ada), (80, bob)] {
            let transfer = PurchaseEffect.transfer(.revenuecat, .production, from: [ada], to: bob, at: at(time).now)
            #expect(try await store.apply([transfer], Sold.products, at(5)).map(\.account) == [holder], "\(time)")
        }
    }

    /// One purchase whose transactions name several accounts is that of the newest transaction, however late an older one is told again.
    @Test(arguments: Backend.allCases) func anOldTransactionMovesNoPurchase(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let store = bench.store
        let (ada, bob) = (try await store.opened("ada@x").account.id, try await store.opened("bob@x").account.id)
        func word(_ period: Int64, _ account: WireID, told: Int64, _ end: PurchaseState? = nil) -> [PurchaseEffect] {
            let transaction = "t\(period)"
            return [
                .status(claimed, Sold.status(until: period + 30, paid: [transaction], from: period, at: told)),
                .owner(claimed, account, at: at(period).now, told: at(told).now),
            ] + (end.map { [.ended(EndedTransaction(.apple, .production, transaction, $0, at: at(told).now))] } ?? [])
        }
        #expect(try await store.claim(claimed, word(0, ada, told: 1), by: ada).purchase?.account == ada)
        #expect(try await store.claim(claimed, word(50, bob, told: 51), by: bob).purchase?.account == bob)
        #expect(try await store.claim(claimed, word(0, ada, told: 60), by: bob) == .ofOtherAccount, "the transaction names the other one")
        #expect(try await store.claim(claimed, word(0, ada, told: 61), by: ada) == .ofOtherAccount)
        try await store.hear("refund", word(0, ada, told: 62, .refunded))
        #expect(try await purchased(store, bob) == 1)
        // Nor does a claim that is refused, whatever it names.
        let carol = try await store.opened("carol@x").account.id
        for name in [carol, newID()] { #expect(try await store.claim(claimed, word(55, name, told: 63), by: ada) == .ofOtherAccount) }
        #expect(try await purchased(store, bob) == 1)
        // The store names another account of the same transaction: the later word counts.
        for (account, told) in [(ada, Int64(70)), (bob, 65)] { try await store.hear("named \(told)", word(56, account, told: told)) }
        #expect(try await purchased(store, ada) == 1)
    }

    /// One that names an account which is not there is bound by the next event once that account has come.
    @Test(arguments: Backend.allCases) func aPurchaseWaitsForTheAccountThatItNames(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (store, coming) = (bench.store, newID())
        let word: [PurchaseEffect] = [.status(claimed, Sold.status(paid: ["c"])), .owner(claimed, coming, at: at(1).now)]
        #expect(try await store.hear("first", word).verdict == .unknownAccount)
        let account = NewAccount(id: coming, openedBy: .anonymous)
        _ = try await store.open(account, session: nil, at(2))
        #expect(try await purchased(store, coming) == 0)
        #expect(try await store.apply([word[0]], Sold.products, at(3)).map(\.account) == [coming])
        #expect(try await purchased(store, coming) == 1)
    }

    /// Written by hand; the account has no tier until it is written right, and others go on.
    @Test(arguments: Backend.allCases) func grantsThatCannotBeReadAreAnError(_ backend: Backend) async throws {
        let bench = try backend.bench()
        defer { bench.end() }
        let (ada, bob) = (try await bench.store.opened("ada@x").account.id, try await bench.store.opened("bob@x").account.id)
        var reader = try await ChangeReader(bench.store)
        try bench.run("UPDATE accounts SET grants = 'apple' WHERE email_key = 'ada@x'")
        await #expect(throws: StoreFault.self) { try await bench.store.standing(of: ada) }
        #expect(try await reader.news() == [.account(ada, AccountStanding(Entitlement(tier: nil, until: nil, version: 0)))])
        #expect(try await purchased(bench.store, bob) == 0)
    }
}

extension ClaimOutcome {
    fileprivate var purchase: Purchase? { if case .bound(let purchase, _, _) = self { purchase } else { nil } }
}
