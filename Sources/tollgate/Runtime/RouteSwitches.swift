internal import Accounts
internal import Gate
internal import Settings
internal import Storage
internal import Transport
internal import Wire

/// The live switches that change routes: shares of splits, maintenance, and when a line with `sunset=` was first adopted.
struct RouteSwitches: Equatable, Sendable {
    static let maintenance = "maintenance"
    static let deprecation = "deprecated"
    static let kinds = [SplitShare.kind, maintenance, deprecation]

    private var shares: [String: SplitShare] = [:]
    private var closed: [String: Maintenance] = [:]
    private var deprecations: [String: WallTime] = [:]

    init() {}

    init(_ switches: [LiveSwitch]) {
        for kind in Self.kinds { adopt(switches.filter { $0.name.hasPrefix(kind + "/") }, of: kind) }
    }

    /// For a command that cannot see the switches.
    static let ownNote = "without a database each gateway keeps its own, which only its admin API shows"

    /// For a command: those of the store or, while it does not answer, of the copy in the data folder, with the problem.
    static func stored(_ configuration: GatewayConfiguration, at now: Moment) -> (switches: Self, problem: String?) {
        guard configuration.settings.usesStore else { return (Self(), ownNote) }
        guard AccountDiagnosis.holdsAccounts(configuration) else { return (Self(), nil) }
        var reason: String
        do {
            let found = try StoreInspection(of: .configured(configuration))
            guard let version = found.version else { return (Self(), nil) }
            if version == found.newest { return (Self(try OfflineAccounts.ask(configuration, at: now) { try await $0.switches() }), nil) }
            reason = "its tables are of another release"
        } catch {
            reason = (error as? AccountCommandFault)?.message ?? (error as? StoreInspection.Fault)?.reason ?? "\(error)"
        }
        let copy = SwitchCopy(dataDirectory: configuration.settings.dataDirectory).read().filter { !$0.hasEnded(at: now.wall) }
        return (Self(copy), "the database cannot be read (\(reason)): they are those of the copy in the data folder")
    }

    /// Takes over all switches of a kind.
    mutating func adopt(_ switches: [LiveSwitch], of kind: String) {
        switch kind {
        case SplitShare.kind: shares = SplitShare.all(switches)
        case Self.maintenance: closed = Dictionary(switches.map { (String($0.subject), Maintenance($0)) }) { $1 }
        default:
            let times = switches.compactMap { item in ISO8601.parse(item.value).map { (String(item.subject), $0) } }
            deprecations = Dictionary(times) { $1 }
        }
    }

    /// The maintenance of contracts.
    var ofContracts: [Maintenance] { closed[MaintenanceScope.contracts.rawValue].map { [$0] } ?? [] }

    /// The rule of a configured route as they change it. Its own maintenance comes before that of all routes.
    func applied(to rule: RouteRule) -> RouteRule {
        var rule = rule
        if let share = shares[rule.name] { rule.split?.percent = share.percent }
        rule.maintenance = [MaintenanceScope.route(rule.name).rawValue, MaintenanceScope.all.rawValue].compactMap { closed[$0] }
        // A sunset must not be before the deprecation (RFC 9745 §4).
        if let sunset = rule.sunset, rule.deprecated == nil { rule.deprecated = deprecations[rule.name].map { min($0, sunset) } }
        return rule
    }
}

extension ActiveConfiguration {
    /// The routes with `sunset=` whose deprecation has no date yet.
    func undatedSunsets() -> [String] {
        currentPolicy.rules.filter { $0.sunset != nil && $0.deprecated == nil }.map(\.name)
    }
}

extension AccountsRuntime {
    /// Keeps when the lines of these routes, with `sunset=` and without `deprecated=`, were first adopted.
    func noteDeprecations(of routes: [String], _ log: ServerLog) {
        let value = ISO8601.text(EventLoop.now().wall)
        // Nothing waits for it: it is tried again later.
        Task {
            for route in routes {
                do throws(AccountFailure) {
                    _ = try await set(SwitchBoard.name(RouteSwitches.deprecation, of: route), to: value, after: 0)
                } catch {
                    // The store is away: the others would fail, too.
                    return log.debug("the day of a deprecation cannot be kept", ("route", route), ("error", "\(error)"))
                }
            }
        }
    }
}

/// The routes that a maintenance closes; as text the subject of its live switch.
enum MaintenanceScope: RawRepresentable, Equatable, Sendable {
    case all, contracts
    case route(String)

    init?(rawValue: String) {
        switch rawValue {
        case "all": self = .all
        case "contracts": self = .contracts
        default:
            guard rawValue.hasPrefix("route/") else { return nil }
            self = .route(String(rawValue.dropFirst(6)))
        }
    }

    /// By the word of the admin API.
    init(word: String) { self = Self(rawValue: word) ?? .route(word) }

    var rawValue: String {
        switch self {
        case .all: "all"
        case .contracts: "contracts"
        case .route(let name): "route/\(name)"
        }
    }

    var word: String {
        switch self {
        case .all, .contracts: rawValue
        case .route(let name): name
        }
    }

    var switchName: String { SwitchBoard.name(RouteSwitches.maintenance, of: rawValue) }
}

extension Maintenance {
    static let longestMessage = 500

    /// That of a live switch. One that a later release has written closes its routes, too.
    init(_ item: LiveSwitch) {
        do { self = try Maintenance(reading: Array(item.value.utf8)) } catch { self = Maintenance() }
        (until, since) = (item.expiresAt, item.since)
    }

    /// Reads the body of the admin API, or the text of a live switch, which has no `until`.
    init(reading body: [UInt8]) throws {
        let object = try RequestObject(body)
        try object.allow(["until", "message", "allow"])
        let end = try object.text("until")
        try self.init(
            until: end.map { text throws(ParseError) in
                guard let time = ISO8601.parse(text) else { throw ParseError("until must be a time like 2027-01-01T22:00:00Z") }
                return time
            }, message: try object.text("message"), allow: try object.texts("allow") ?? [])
    }

    init(until: WallTime?, message: String?, allow: [String]) throws(ParseError) {
        if let message {
            guard message.utf8.count <= Self.longestMessage, !message.isEmpty, !message.unicodeScalars.contains(where: \.isControl) else {
                throw ParseError("message must have 1 to \(Self.longestMessage) bytes and no control characters")
            }
        }
        var networks: [CIDR] = []
        for text in allow {
            guard let network = CIDR(parsing: text) else {
                throw ParseError("allow must name networks, and \(quoted(text)) is none, write one like 192.0.2.0/24")
            }
            networks.append(network)
        }
        guard networks.count <= 64 else { throw ParseError("allow must name 64 networks at most") }
        self.init(until: until, message: message, allowed: networks)
    }

    /// The text of its live switch.
    var text: String {
        var json = JSONWriter()
        json.beginObject()
        if let message {
            json.key("message")
            json.string(message)
        }
        json.array("allow", allowed) { $0.string($1.text) }
        json.endObject()
        return json.finish().readable.text
    }
}

extension Unicode.Scalar {
    fileprivate var isControl: Bool { value < 0x20 || (0x7F...0x9F).contains(value) || value == 0x2028 || value == 0x2029 }
}
