internal import Accounts
internal import Admin
internal import Gate
internal import Settings
internal import Wire

extension Command {
    /// The share of a route's split.
    static let splits = [
        Command.overAccounts(
            "split ROUTE [SHARE]", "prints the share of a route's split, or sets it on all gateways of the database: 10%, or reset"
        ) { call throws(UsageFault) in
            let route = call.operands[0].lowercased()
            let word = call.operands.dropFirst().first
            let wanted = word == nil ? nil : try share(word ?? "")
            return { accounts in
                let rule = accounts.routes.first { $0.name == route }
                guard let rule, rule.split != nil else {
                    throw AccountCommandFault(
                        message: "no route \(quoted(route)) has split=, `tollgate check` lists the routes", exitCode: 2)
                }
                guard accounts.usesStore else {
                    throw AccountCommandFault(
                        message: "without accounts each gateway keeps its own share: use PUT /admin/api/routes/\(route)/split", exitCode: 2)
                }
                if word != nil { try await accounts.set(SplitShare.name(of: route), to: wanted?.text) }
                let inForce = SplitShare.all(try await accounts.switches().filter { $0.name == SplitShare.name(of: route) })[route]
                guard let shown = ShownSplit(rule, inForce) else { throw AccountCommandFault(message: "the split has gone") }
                return call.answer(shown) { shown.sentence }
            }
        }.with(examples: ["tollgate split api 10%"])
    ]

    /// nil for that of the line.
    private static func share(_ word: String) throws(UsageFault) -> SplitShare? {
        if word == "reset" { return nil }
        do throws(ParseError) {
            return SplitShare(percent: try TypedText.percentage(word, 0...100))
        } catch {
            throw UsageFault("\(quoted(word)) \(error.text), or reset")
        }
    }
}
