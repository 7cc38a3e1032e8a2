internal import Accounts
internal import Admin
internal import Credentials
internal import Gate
internal import HTTP
internal import Settings
internal import Wire

extension AdminOperation {
    /// The switches that close routes.
    static func maintenance(_ gateway: some OperatedGateway) -> [AdminOperation] {
        let path = "maintenance/{scope}"
        return [
            AdminOperation(
                "GET", "maintenance", "listMaintenance", "The routes that are closed for maintenance", access: .scope(.gatewayRead),
                answers: ShownMaintenances.shape
            ) { _, _ in gateway.shownMaintenance },
            AdminOperation(
                "PUT", path, "setMaintenance",
                "Closes a route, `all` routes or the `contracts` on all gateways of the database; like tollgate maintenance on",
                access: .operator,
                body: .object([
                    .may("until", .time), .may("message", .text, "For users, in place of a sentence of the gateway's"),
                    .may("allow", .array(.text), "Networks whose requests pass"),
                ]), answers: ShownMaintenances.shape, refusals: [404]
            ) { _, call in
                let scope = try gateway.scope(call.arguments[0])
                let maintenance: Maintenance
                do {
                    maintenance = try Maintenance(reading: call.request.body.isEmpty ? Array("{}".utf8) : call.request.body)
                } catch let error as ParseError {
                    throw AdminRefusal(400, "BAD_REQUEST", error.text)
                }
                if let until = maintenance.until, until <= gateway.time {
                    throw AdminRefusal(400, "BAD_REQUEST", "until must lie in the future")
                }
                try await gateway.set(scope.switchName, to: maintenance.text, until: maintenance.until)
                return gateway.shownMaintenance
            },
            AdminOperation(
                "DELETE", path, "endMaintenance", "Opens it again; like tollgate maintenance off", access: .operator,
                answers: ShownMaintenances.shape
            ) { _, call in
                try await gateway.set(MaintenanceScope(word: call.arguments[0]).switchName, to: nil, until: nil)
                return gateway.shownMaintenance
            },
        ]
    }
}

extension OperatedGateway {
    /// The scopes that are closed, of routes those that the configuration has.
    var closedScopes: [MaintenanceScope] {
        shownMaintenance.maintenance.map(\.scope).filter { scope in
            guard case .route(let name) = scope else { return true }
            return configuration.settings.routes.contains { $0.rule.name == name }
        }
    }

    fileprivate var shownMaintenance: ShownMaintenances { ShownMaintenances(switches(RouteSwitches.maintenance)) }

    fileprivate func scope(_ word: String) throws(AdminRefusal) -> MaintenanceScope {
        let scope = MaintenanceScope(word: word)
        if case .route(let name) = scope, !configuration.settings.routes.contains(where: { $0.rule.name == name }) {
            throw AdminRefusal(404, "NOT_FOUND", "No route has this name, and it is not all or contracts")
        }
        return scope
    }
}

/// A maintenance, as the admin API and `tollgate maintenance show` show it.
struct ShownMaintenance: Recorded {
    let scope: MaintenanceScope
    let maintenance: Maintenance

    static let record = Record<Self>(
        "Maintenance",
        [
            .has("scope", about: "A route's name, `all` or `contracts`", \.scope.word), .may("since", \.maintenance.since),
            .may("until", \.maintenance.until), .may("message", \.maintenance.message),
            .has("allow") { $0.maintenance.allowed.map(\.text) },
        ])

    var sentence: String {
        let what =
            switch scope {
            case .all: "All routes are"
            case .contracts: "The contracts are"
            case .route(let name): "The route \(name) is"
            }
        let message = maintenance.message.map { ": \($0)" } ?? "."
        return "\(what) \(extent)\(message)\n"
    }

    /// Until when it is closed, since when, and for whom not.
    var extent: String {
        let end = maintenance.until.map { "until \(ISO8601.text($0))" } ?? "until `tollgate maintenance off`"
        let allowed = maintenance.allowed.isEmpty ? "" : ", but for \(maintenance.allowed.map(\.text).joined(separator: " "))"
        return "closed \(end)\(maintenance.since.map { ", since \(ISO8601.text($0))" } ?? "")\(allowed)"
    }
}

struct ShownMaintenances: Recorded {
    let maintenance: [ShownMaintenance]

    init(_ switches: [LiveSwitch]) {
        maintenance = switches.filter { $0.name.hasPrefix(RouteSwitches.maintenance + "/") }.compactMap { item in
            MaintenanceScope(rawValue: String(item.subject)).map { ShownMaintenance(scope: $0, maintenance: Maintenance(item)) }
        }
    }

    static let record = Record<Self>([.has("maintenance", \.maintenance)])

    var text: String { maintenance.isEmpty ? "Nothing is closed for maintenance.\n" : maintenance.map(\.sentence).joined() }
}
