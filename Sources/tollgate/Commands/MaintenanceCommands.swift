internal import Accounts
internal import Admin
internal import Contracts
internal import Gate
internal import Glibc
internal import Settings
internal import Wire

extension Command {
    /// The switches that close routes.
    static let maintenance = [
        Command.overAccounts(
            "maintenance on", "closes routes for maintenance on all gateways of the database: they answer 503 with Retry-After",
            options: CommandOption.ofMaintenance + [
                CommandOption("until", "TIME", "the end: 22:00 of this machine's clock, the next one, or a time like 2027-01-01T22:00:00Z"),
                CommandOption("message", "TEXT", "for users, in place of a sentence of the gateway's"),
                CommandOption("allow", "NET,NET", "networks whose requests pass, like 192.0.2.0/24"),
            ]
        ) { call throws(UsageFault) in
            let scopes = try MaintenanceScope.all(call)
            let until = try call.value("until") { text throws(UsageFault) in try MaintenanceEnd.read(text, at: call.now.wall) }
            let allow = call.value("allow")?.split(separator: ",").map(String.init) ?? []
            let maintenance: Maintenance
            do throws(ParseError) {
                maintenance = try Maintenance(until: until, message: call.value("message"), allow: allow)
            } catch {
                throw UsageFault("--\(error.text)")
            }
            return { accounts in
                try requireStore(accounts, "PUT and DELETE /admin/api/maintenance/\(scopes[0].word)")
                for scope in scopes { try requireRoute(scope, accounts) }
                return try await change(accounts, scopes, to: maintenance, call)
            }
        }.with(examples: ["tollgate maintenance on --all --until 22:00 --message \"Back at ten.\""]),
        Command.overAccounts(
            "maintenance off", "opens them again", options: CommandOption.ofMaintenance
        ) { call throws(UsageFault) in
            let scopes = try MaintenanceScope.all(call)
            return { accounts in
                try requireStore(accounts, "PUT and DELETE /admin/api/maintenance/\(scopes[0].word)")
                let closed = ShownMaintenances(try await accounts.switches()).maintenance.map(\.scope)
                let open = scopes.filter { !closed.contains($0) }
                // One that is closed may have lost its line since.
                for scope in open { try requireRoute(scope, accounts) }
                var result = try await change(accounts, scopes, to: nil, call)
                result.errorOutput += open.map { "note: \($0.words) not closed before\n" }.joined()
                return result
            }
        },
        Command.overAccounts("maintenance show", "shows what is closed for maintenance") { call in
            { accounts in
                try requireStore(accounts, "GET /admin/api/maintenance")
                return try await shown(accounts, call)
            }
        },
    ]

    private static func requireStore(_ accounts: OfflineAccounts, _ operations: String) throws(AccountCommandFault) {
        guard !accounts.usesStore else { return }
        throw AccountCommandFault(
            message: "without a database each gateway keeps its own switches: set DATABASE_URL, or use \(operations)", exitCode: 2)
    }

    private static func requireRoute(_ scope: MaintenanceScope, _ accounts: OfflineAccounts) throws(AccountCommandFault) {
        guard case .route(let name) = scope, !accounts.routes.contains(where: { $0.name == name }) else { return }
        if Catalogue.endpoints.contains(where: { $0.name == name && !$0.isForServers }) {
            throw AccountCommandFault(message: "\(quoted(name)) is an endpoint of the gateway's own, write --contracts", exitCode: 2)
        }
        let nearest = nearestName(to: name, in: accounts.routes.map(\.name)).map { ", the nearest is \($0)" } ?? ""
        throw AccountCommandFault(message: "no route has the name \(quoted(name))\(nearest)", exitCode: 2)
    }

    private static func change(
        _ accounts: OfflineAccounts, _ scopes: [MaintenanceScope], to maintenance: Maintenance?, _ call: CommandCall
    ) async throws -> CommandResult {
        for scope in scopes { try await accounts.set(scope.switchName, to: maintenance?.text, until: maintenance?.until) }
        return try await shown(accounts, call)
    }

    private static func shown(_ accounts: OfflineAccounts, _ call: CommandCall) async throws -> CommandResult {
        let shown = ShownMaintenances(try await accounts.switches())
        return call.answer(shown) { shown.text }
    }
}

extension CommandOption {
    fileprivate static let ofMaintenance = [
        CommandOption("route", "NAME", "this route"), CommandOption("all", nil, "every route, and not sign-in and refresh"),
        CommandOption("contracts", nil, "sign-in, refresh and the other endpoints of contracts and accounts"),
    ]
}

extension MaintenanceScope {
    /// The beginning of a sentence in the past.
    fileprivate var words: String {
        switch self {
        case .all: "all routes together were"
        case .contracts: "the contracts were"
        case .route(let name): "the route \(name) was"
        }
    }

    /// Those that a command line names.
    fileprivate static func all(_ call: CommandCall) throws(UsageFault) -> [Self] {
        var scopes: [Self] = []
        if let name = call.value("route")?.lowercased() { scopes.append(.route(name)) }
        if call.has("all") { scopes.append(.all) }
        if call.has("contracts") { scopes.append(.contracts) }
        guard !scopes.isEmpty else { throw UsageFault("say of what: --route NAME, --all, --contracts or several of them") }
        return scopes
    }
}

/// The end of a maintenance, as operators write it.
enum MaintenanceEnd {
    static func read(_ text: String, at now: WallTime) throws(UsageFault) -> WallTime {
        let time = try clock(text, now) ?? ISO8601.parse(text)
        guard let time else { throw UsageFault("--until \(quoted(text)) is no time, write 22:00, or one like 2027-01-01T22:00:00Z") }
        guard time > now else { throw UsageFault("--until \(quoted(text)) is past, write a time in the future") }
        return time
    }

    /// The next time at which this machine's clock shows `HH:MM`; nil for another form.
    private static func clock(_ text: String, _ now: WallTime) throws(UsageFault) -> WallTime? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 && $0.utf8.allSatisfy(\.isASCIIDigit) }) else { return nil }
        guard let hour = Int32(parts[0]), let minute = Int32(parts[1]), hour < 24, minute < 60 else {
            throw UsageFault("--until \(quoted(text)) is no time of a day, write one from 00:00 to 23:59")
        }
        let today = local(now, plusDays: 0, hour, minute)
        return today > now ? today : local(now, plusDays: 1, hour, minute)
    }

    /// That time of the day of `now`, or of a later day, in this machine's zone.
    private static func local(_ now: WallTime, plusDays days: Int32, _ hour: Int32, _ minute: Int32) -> WallTime {
        var seconds = time_t(now.seconds)
        var civil = unsafe tm()
        unsafe localtime_r(&seconds, &civil)
        unsafe (civil.tm_mday, civil.tm_hour, civil.tm_min) = (civil.tm_mday + days, hour, minute)
        // Whether that is in summer time is looked up.
        unsafe (civil.tm_sec, civil.tm_isdst) = (0, -1)
        return WallTime(seconds: Int64(unsafe mktime(&civil)))
    }
}
