internal import Accounts
internal import Admin
internal import Wire

extension Command {
    /// The events of accounts.
    static let events = [
        Command.overAccounts(
            "events list", "lists the events of accounts, the oldest first",
            options: [CommandOption("account", "USER", "only those of this account: an id, an email, or NAME:SUBJECT of a trust line")]
                + CommandOption.page(of: "events")
        ) { call throws(UsageFault) in
            let (after, limit) = try call.page()
            return { accounts in
                let page = try await accounts.operator.events(of: call.value("account"), after: after, limit: limit)
                return call.answer(page) {
                    guard let next = page.next else { return "There is no such event.\n" }
                    let rows = page.events.map { [$0.id.text, $0.kind.rawValue, ISO8601.text($0.at), $0.account.text, $0.visibleData] }
                    let more = page.events.count == limit ? "\nThere may be more: --after \(next.text)\n" : ""
                    return CheckTable.table(["ID", "TYPE", "TIME", "ACCOUNT", "DATA"], rows) + more
                }
            }
        },
        Command.overAccounts(
            "events replay SUBSCRIBER", "sends a service all events behind one again; SUBSCRIBER is the NAME of TOLLGATE_EVENTS_NAME",
            options: [CommandOption("after", "ID", "the last event that is not sent again", isRequired: true)]
        ) { call throws(UsageFault) in
            let after = try call.value("after") { text throws(UsageFault) in
                guard let id = UUID(parsing: text) else { throw UsageFault("--after \(quoted(text)) is not the id of an event") }
                return id
            }
            guard let after else { throw UsageFault("--after ID is missing, `tollgate events list` shows the events") }
            return { accounts in
                let replayed = try await accounts.operator.replay(to: call.operands[0].lowercased(), after: after)
                return call.answer(replayed) { "All events behind \(after.text) are sent to \(call.operands[0].lowercased()) again.\n" }
            }
        },
    ]
}

extension AccountEvent {
    /// Its data without the account, for a terminal.
    fileprivate var visibleData: String {
        let text = String(decoding: data, as: UTF8.self)
        // The first member is the account.
        return visible(text.firstIndex(of: ",").map { String(text[text.index(after: $0)...].dropLast()) } ?? "")
    }
}
