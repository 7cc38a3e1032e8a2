internal import Accounts
internal import Admin
internal import Credentials
internal import Gate
internal import HTTP
internal import Settings
internal import Wire

extension AdminOperation {
    /// The shares of splits, which change while gateways run.
    static func splits(_ gateway: some OperatedGateway) -> [AdminOperation] {
        let path = "routes/{route}/split"
        return [
            AdminOperation(
                "GET", path, "getSplit", "The share of a route's requests that goes to its other upstream", access: .scope(.gatewayRead),
                answers: ShownSplit.shape, refusals: [404]
            ) { _, call in try gateway.split(call.arguments[0]) },
            AdminOperation(
                "PUT", path, "setSplit",
                "Sets the share on all gateways of the database, until it is set anew or reset; like tollgate split",
                access: .operator, body: .object([.has("percent", .range(0...100))]), answers: ShownSplit.shape, refusals: [404]
            ) { _, call in
                _ = try gateway.split(call.arguments[0])
                guard let percent = try RequestObject(call.request.body).integer("percent"), 0...100 ~= percent else {
                    throw AdminRefusal(400, "BAD_REQUEST", "percent must be a number from 0 to 100")
                }
                try await gateway.set(
                    SplitShare.name(of: call.arguments[0]), to: SplitShare(percent: percent).text, until: nil)
                return try gateway.split(call.arguments[0])
            },
            AdminOperation(
                "DELETE", path, "resetSplit", "Has the share be that of the route's line again", access: .operator,
                answers: ShownSplit.shape, refusals: [404]
            ) { _, call in
                _ = try gateway.split(call.arguments[0])
                try await gateway.set(SplitShare.name(of: call.arguments[0]), to: nil, until: nil)
                return try gateway.split(call.arguments[0])
            },
        ]
    }
}

extension OperatedGateway {
    fileprivate func split(_ name: String) throws(AdminRefusal) -> ShownSplit {
        let rule = configuration.settings.routes.map(\.rule).first { $0.name == name }
        guard let rule, let shown = ShownSplit(rule, SplitShare.all(switches(SplitShare.kind))[name]) else {
            throw AdminRefusal(404, "NOT_FOUND", "No route of this name has split=")
        }
        return shown
    }
}

/// A route's split, as the admin API and `tollgate split` show it.
struct ShownSplit: Recorded {
    let route: String
    let split: RouteSplit
    let share: SplitShare?

    init?(_ rule: RouteRule, _ share: SplitShare?) {
        guard let split = rule.split else { return nil }
        (route, self.split, self.share) = (rule.name, split, share)
    }

    static let record = Record<Self>(
        "Split",
        [
            .has("route", \.route), .has("upstream", \.split.upstreamName), .has("percent", \.percent),
            .has("configured_percent", about: "That of the route's line", \.split.percent),
            .has("set_by", .words(["configuration", "operator", "guard"]), \.setter),
        ])

    var percent: Int { share?.percent ?? split.percent }
    var setter: String { share.map { $0.isGuards ? "guard" : "operator" } ?? "configuration" }

    var sentence: String {
        let whose =
            switch setter {
            case "guard": "set by split-guard=, because they failed there; the line says \(split.percent)%"
            case "operator": "set by an operator; the line says \(split.percent)%"
            default: "as the line says"
            }
        return "\(percent)% of the requests of \(route) go to \(split.upstreamName): \(whose).\n"
    }
}
