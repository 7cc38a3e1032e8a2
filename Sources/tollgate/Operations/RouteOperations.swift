internal import Admin
internal import Contracts
internal import Credentials
internal import Gate
internal import HTTP
internal import Settings
internal import Synchronization
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

extension AdminOperation {
    /// The routes, and what they do with a request.
    static func routes(_ gateway: some OperatedGateway) -> [AdminOperation] {
        [
            AdminOperation(
                "GET", "routes", "listRoutes", "The resolved routes with their counts, and the endpoints of the contracts",
                access: .scope(.gatewayRead), answers: ShownRoutes.shape
            ) { _, _ in ShownRoutes(gateway.configuration, TrafficSummary(await gateway.reports())) },
            AdminOperation(
                "POST", "explain", "explain", "The steps and the verdict for a request, without sending it; like tollgate explain",
                access: .scope(.gatewayRead),
                body: .object([
                    .has("method", .text), .has("url", .text, "http://HOST/PATH, or a path alone"),
                    .may("token", .text, "The bearer; never logged"),
                    .may("from", .text, "The client's address; 127.0.0.1 without it"), .may("headers", .map(.text)),
                ]), answers: ShownWalk.shape
            ) { _, call in
                let request = try ExplainCommand.Request(call.request.body)
                do throws(ExplainRefusal) {
                    return try await gateway.explain(request).shown(request)
                } catch {
                    throw AdminRefusal(503, "UNAVAILABLE", error.text, [("Retry-After", "1")])
                }
            },
        ]
    }
}

// MARK: - Records

/// A line with options, as the admin API and `--json` show it.
struct ShownLine<Target: OptionTarget>: Sendable {
    let target: Target
    let tiers: TierList

    /// The fields of its options: the table of options describes them. A name `a.b` is the field `b` of an object `a`.
    static var optionFields: [RecordField<Self>] {
        var fields: [RecordField<Self>] = []
        var rest = Target.options[...]
        while let option = rest.first {
            let group = group(option)
            let members = rest.prefix { group != nil && Self.group($0) == group }
            rest = rest.dropFirst(max(1, members.count))
            guard let group else {
                fields.append(field(option, option.jsonName, isRequired: option.isAlwaysShown))
                continue
            }
            // The first is what the others hang on.
            let record = Record(members.map { field($0, String($0.jsonName.dropFirst(group.count + 1)), isRequired: true) })
            fields.append(
                RecordField(.may(group, record.shape.schema)) { line, json in
                    guard members.contains(where: { line.json($0) != nil }) else { return }
                    json.key(group)
                    record.write(line, &json)
                })
        }
        return fields
    }

    private static func group(_ option: LineOption<Target>) -> String? {
        option.jsonName.firstIndex(of: ".").map { String(option.jsonName[..<$0]) }
    }

    private static func field(_ option: LineOption<Target>, _ name: String, isRequired: Bool) -> RecordField<Self> {
        let schema: JSONSchema = option.isNullable ? .nullable(option.schema) : option.schema
        return RecordField(isRequired ? .has(name, schema) : .may(name, schema)) { line, json in
            guard let value = line.json(option) else { return }
            json.key(name)
            json.value(value)
        }
    }

    private func json(_ option: LineOption<Target>) -> OptionValue.JSON? {
        option.applies(target) ? option.value(target, tiers)?.json : nil
    }
}

extension LineOption {
    fileprivate var schema: JSONSchema {
        switch kind {
        case .text: .text
        case .number: .integer
        case .flag: .boolean
        case .list: .array(.text)
        }
    }
}

/// A route, in a running gateway with the counts of its requests.
struct ShownRoute: Recorded {
    let line: ShownLine<RouteDeclaration>
    let counts: TrafficSummary.Counts

    private var rule: RouteRule { line.target.rule }

    static let record = Record<Self>("Route", plain.fields + [.has("counts", \.counts)])
    static let plain = Record<Self>(
        [
            .has("name", \.rule.name), .has("methods", \.rule.methods), .may("host", \.rule.host), .has("path", \.rule.shownPath),
        ] + Record(ShownLine.optionFields).fields(of: \.line) + [
            .has("authorization") { $0.rule.keepsAuthorization ? "forwarded" : "removed" }
        ])
}

extension MountedEndpoint: Recorded {
    static let record = Record<Self>(
        "Endpoint",
        [
            .has("name", \.endpoint.name), .has("mount", \.mount), .has("methods", \.endpoint.methods), .has("path", \.rule.shownPath),
            .has("auth", \.endpoint.auth.name), .has("errors") { Catalogue.envelopes[$0.endpoint.dialect].name },
        ])
}

/// The routes, and the endpoints of the contracts.
struct ShownRoutes: Recorded {
    let routes: [ShownRoute]
    let endpoints: [MountedEndpoint]

    init(_ configuration: GatewayConfiguration, _ traffic: TrafficSummary = TrafficSummary([])) {
        let tiers = configuration.settings.tiers
        routes = configuration.settings.routes.map { route in
            ShownRoute(
                line: ShownLine(target: route, tiers: tiers),
                counts: traffic.routes[route.rule.name] ?? TrafficSummary.Counts())
        }
        endpoints = configuration.endpoints
    }

    static let record = Record<Self>([.has("routes", \.routes), .has("endpoints", \.endpoints)])
    /// Without counts.
    static let plain = Record<Self>([.has("routes", .array(ShownRoute.plain.shape), \.routes), .has("endpoints", \.endpoints)])
}

extension RouteRule {
    /// Whether the upstream gets the client's `Authorization`.
    var keepsAuthorization: Bool { auth == .none || forwardsAuthorization }

    fileprivate var shownPath: String { path + (isPrefix ? "*" : "") }
}

// MARK: - Explaining

/// Why a request is not explained now.
enum ExplainRefusal: Error {
    case busy
    case noThread

    var text: String {
        switch self {
        case .busy: "Another request is being explained"
        case .noThread: "No thread can be started"
        }
    }
}

/// The walk of `tollgate explain` under the policy in force. One at a time, on a thread of its own, because it asks the store and outside
/// servers.
final class Explainer: Sendable {
    private let isBusy = Mutex(false)

    func explain(
        _ request: ExplainCommand.Request, _ configuration: GatewayConfiguration, _ policy: Policy,
        readiness: @escaping @Sendable () -> Readiness
    ) async throws(ExplainRefusal) -> ExplainedWalk {
        let mayStart = isBusy.withLock { isBusy in
            defer { isBusy = true }
            return !isBusy
        }
        guard mayStart else { throw .busy }
        defer { isBusy.withLock { $0 = false } }
        do throws(SystemFault) {
            return try await WorkerThread.run("explain") {
                ExplainedWalk(request, configuration, policy, at: EventLoop.now()) { upstream in
                    AddressDiagnosis.reasons(readiness(), prefix: "upstream \(upstream) ")
                }
            }
        } catch {
            throw .noThread
        }
    }
}

extension ExplainCommand.Request {
    /// The request that the body of `POST /admin/api/explain` describes.
    fileprivate init(_ body: [UInt8]) throws {
        let body = try RequestObject(body)
        guard let method = try body.text("method"), let url = try body.text("url") else {
            throw AdminRefusal(400, "BAD_REQUEST", "method and url are required")
        }
        let headers = try body.object("headers").map { given in
            try given.names.compactMap { name in try given.text(name).map { "\(name): \($0)" } }
        }
        let (token, from) = (try body.text("token"), try body.text("from"))
        do throws(UsageFault) {
            try self.init(method: method, url: url, token: token, headers: headers ?? [], from: from)
        } catch {
            throw AdminRefusal(400, "BAD_REQUEST", error.message)
        }
    }
}
