internal import Accounts
internal import Admin
internal import Credentials
internal import Wire

extension AdminOperation {
    /// The census of apps.
    static func apps(_ gateway: some OperatedGateway) -> AdminOperation {
        AdminOperation(
            "GET", "apps", "listApps", "The versions of apps on routes with `app=` in the last seven days, at all gateways of the database",
            access: .scope(.gatewayRead), answers: ShownApps.shape
        ) { _, _ in ShownApps(try await gateway.appUses()) }
    }
}

/// The census of a week, as the admin API and `tollgate apps` show it.
struct ShownApps: Recorded {
    struct App: Recorded {
        let gate: String
        let version: String
        let requests: UInt64
        let users: Int

        static let record = Record<Self>(
            "App",
            [
                .has("gate", about: "A gate's name; `-` where none is for the platform", \.gate),
                .has("version", about: "`none` for requests without one, `other` for those beyond the room of the census", \.version),
                .has("requests", \.requests), .has("users", about: "Estimated; without a user by address", \.users),
            ])
    }

    let apps: [App]

    /// `uses` of several days, in any order.
    init(_ uses: [AppUse]) {
        let whole = AppUse.joined(
            uses.map { AppUse(AppUse.Key(day: 0, gate: $0.key.gate, version: $0.key.version), requests: $0.requests, users: $0.users) })
        apps = whole.values.sorted { ($1.requests, $0.key) < ($0.requests, $1.key) }.map {
            App(gate: $0.key.gate, version: $0.key.version, requests: $0.requests, users: $0.users.count)
        }
    }

    static let record = Record<Self>([.has("apps", \.apps)])

    var text: String {
        if apps.isEmpty { return "No request of the last seven days came on a route with app=. Gateways add theirs once a minute.\n" }
        return CheckTable.table(
            ["GATE", "VERSION", "REQUESTS", "USERS"], apps.map { [$0.gate, $0.version, "\($0.requests)", "\($0.users)"] })
    }
}

extension Command {
    /// The census of apps.
    static let apps = [
        Command.overAccounts(
            "apps", "shows the versions of apps on routes with app= in the last seven days, at all gateways of the database"
        ) {
            call in
            { accounts in
                guard accounts.usesStore else {
                    throw AccountCommandFault(
                        message: "without a database each gateway keeps its own census: set DATABASE_URL, or use GET /admin/api/apps",
                        exitCode: 2)
                }
                let shown = ShownApps(try await accounts.appUses(since: AppBoard.oldest(call.now.wall)))
                return call.answer(shown) { shown.text }
            }
        }
    ]
}
