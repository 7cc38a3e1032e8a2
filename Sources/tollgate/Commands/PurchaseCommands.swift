internal import Accounts
internal import Admin
internal import Settings
internal import Wire

extension Command {
    /// Purchases, and the events of stores.
    static let purchases = [
        Command.overAccounts(
            "purchases list", "lists the purchases of an account, or of all",
            options: [
                CommandOption("account", "USER", "only those of this account: an id, an email, or NAME:SUBJECT of a trust line"),
                CommandOption("state", "STATE", "only those in this state: \(PurchaseState.words)"),
            ] + CommandOption.page(of: "purchases")
        ) { call throws(UsageFault) in
            let state = try call.value("state") { text throws(UsageFault) in
                guard let state = PurchaseState(rawValue: text) else {
                    throw UsageFault("--state \(quoted(text)) is no state, write one of \(PurchaseState.words)")
                }
                return state
            }
            let (after, limit) = try call.page()
            return { accounts in
                // One more than shown, to know whether there are more.
                let found = try await accounts.operator.purchases(of: call.value("account"), state, after: after, limit: limit + 1)
                let shown = Array(found.prefix(limit))
                return call.answer(shown) {
                    guard let last = shown.last else { return "There is no such purchase.\n" }
                    let more = found.count > limit ? "\nThere are more: --after \(last.id.text)\n" : ""
                    return CheckTable.table(Purchase.columns, shown.map(\.row)) + more
                }
            }
        },
        Command.overAccounts("purchases show ID", "shows one purchase with the notifications about it") { call throws(UsageFault) in
            let id = try call.id(of: "a purchase")
            return { accounts in
                let details = try await accounts.operator.purchases.details(id)
                return call.answer(details) { details.text }
            }
        },
        Command.overAccounts(
            "purchases sync ID", "asks the store for the newest state of a purchase; every gateway applies it within a second"
        ) { call throws(UsageFault) in
            let id = try call.id(of: "a purchase")
            return { accounts in
                let purchase = try await accounts.operator.purchases.sync(id)
                return call.answer(purchase) { purchase.text }
            }
        },
        Command.overAccounts(
            "purchases replay ID", "applies a kept notification of a store again; what was known later stays"
        ) { call throws(UsageFault) in
            let id = try call.id(of: "a store event")
            return { accounts in
                let replayed = try await accounts.operator.purchases.replay(id)
                return call.answer(replayed) {
                    let head = "\(visible(replayed.event.type)) of \(ISO8601.text(replayed.event.at)) was applied again.\n"
                    guard !replayed.purchases.isEmpty else { return head + "It is about no purchase.\n" }
                    return head + "\n" + CheckTable.table(Purchase.columns, replayed.purchases.map(\.row))
                }
            }
        },
    ]
}

extension PurchaseState {
    fileprivate static let words = allCases.map(\.rawValue).joined(separator: ", ")
}

extension CommandCall {
    /// The first operand.
    fileprivate func id(of thing: String) throws(UsageFault) -> UUID {
        guard let id = UUID(parsing: operands[0]) else { throw UsageFault("\(quoted(operands[0])) is not the id of \(thing)") }
        return id
    }
}

extension PurchaseDetails {
    var text: String {
        guard !events.isEmpty else { return purchase.text + "\nNo kept notification is about it.\n" }
        let rows = events.map { event in
            [event.id.text, visible(event.type), ISO8601.text(event.at), ISO8601.text(event.receivedAt), event.verdict.rawValue]
        }
        return purchase.text + "\n" + CheckTable.table(["NOTIFICATION", "TYPE", "STORE'S TIME", "RECEIVED", "VERDICT"], rows)
    }
}

extension Purchase {
    static let columns = ["ID", "ACCOUNT", "SOURCE", "PRODUCT", "TIER", "STATE", "UNTIL", "RENEWS"]

    /// Sandbox purchases are marked, because no money was paid for them.
    private var shownSource: String { key.source.rawValue + (key.environment == .sandbox ? " (sandbox)" : "") }

    private var shownProduct: String { product.map { "\($0) (\(visible(status.product)))" } ?? visible(status.product) }

    var row: [String] {
        [
            id.text, account?.text ?? "", shownSource, product ?? visible(status.product), tier ?? "", state.rawValue,
            until.map(ISO8601.text) ?? "", status.renews ? "yes" : "no",
        ]
    }

    /// A table for a terminal.
    var text: String {
        let rows = [
            ["id", id.text], ["account", account?.text ?? "none yet"], ["source", shownSource], ["original id", visible(key.original)],
            ["product", shownProduct + (product == nil ? ", which no TOLLGATE_PRODUCT_ line has" : "")],
            ["tier", tier ?? "none"], ["state", state.rawValue], ["until", until.map(ISO8601.text) ?? "without end"],
            ["renews", status.renews ? "yes" : "no"],
            ["transactions", status.transactions.map { visible($0) }.joined(separator: ", ")],
            ["store's time", ISO8601.text(status.at)], ["kept since", ISO8601.text(createdAt)], ["changed", ISO8601.text(updatedAt)],
        ]
        return CheckTable.table(["PART", "WHAT"], rows)
    }
}
