internal import Contracts
internal import Mail
internal import Redis
internal import Settings
internal import Storage
internal import Transport
internal import Wire

/// A configuration together with what other rooms read in its texts. A setting that the configuration has is read as if it
/// stood here.
@dynamicMemberLookup
struct GatewayConfiguration: Sendable {
    var settings: Configuration
    /// The contracts that are answered here, and where.
    var contracts = MountTable()
    /// The endpoints of the account page whose paths no route takes.
    var pages: [MountedEndpoint] = []
    /// nil: limits are counted in process.
    var redis: RedisEndpoint?
    /// nil: a file in the data folder.
    var database: StoreLocation?
    var mail: MailPlan

    subscript<Value>(dynamicMember path: WritableKeyPath<Configuration, Value>) -> Value {
        get { settings[keyPath: path] }
        set { settings[keyPath: path] = newValue }
    }

    subscript<Value>(dynamicMember path: KeyPath<Configuration, Value>) -> Value { settings[keyPath: path] }

    /// Has every text read by the room that it is for; what these refuse becomes a finding.
    init(_ settings: Configuration, _ findings: inout Findings) {
        self.settings = settings
        contracts = MountTable(settings, &findings)
        let routes = RouteChecks(settings, contracts)
        findings.add(routes.findings)
        pages = routes.pages
        redis = RedisEndpoint.read(settings, &findings)
        database = StoreLocation.read(settings, &findings)
        mail = MailPlan(settings, &findings)
    }

    /// All endpoints of the contracts and of the account page, in the order in which the policy has them behind the routes.
    var endpoints: [MountedEndpoint] { contracts.endpoints + pages }

    /// Takes over from the running configuration what a reload cannot change; answers the names of the settings in which
    /// this one differed.
    mutating func keepUnchangeable(of running: GatewayConfiguration) -> [String] {
        redis = running.redis
        database = running.database
        return settings.keepUnchangeable(of: running.settings)
    }
}

extension RedisEndpoint {
    /// The Redis of `REDIS_URL`. A fault shows nothing of the URL: a password may be anywhere in it.
    fileprivate static func read(_ settings: Configuration, _ findings: inout Findings) -> RedisEndpoint? {
        guard let url = settings.redisURL else { return nil }
        do {
            return try RedisEndpoint(parsing: url)
        } catch {
            findings.fault(Finding(settings.origin(of: .redisURL), Setting.redisURL.name, "is no URL of a Redis, \(error)"))
            return nil
        }
    }
}

extension StoreLocation {
    /// The database of `DATABASE_URL`. Gateways that can share it are warned where they would not share their keys.
    fileprivate static func read(_ settings: Configuration, _ findings: inout Findings) -> StoreLocation? {
        guard let url = settings.databaseURL else { return nil }
        let origin = settings.origin(of: .databaseURL)
        do throws(Fault) {
            let location = try StoreLocation(url: url)
            if location.isServer, settings.keySecret == nil, settings.jwtSecret == nil {
                let message = "is a database that several gateways can share, but this one keeps its signing keys to itself: set TOLLGATE_KEY_SECRET, the same on all of them, or each refuses the tokens of the others"
                findings.warn(Finding(origin, Setting.databaseURL.name, message))
            }
            return location
        } catch {
            findings.fault(Finding(origin, Setting.databaseURL.name, error.description))
            return nil
        }
    }

    /// The database that is set, else a file in the data folder.
    init(_ configuration: GatewayConfiguration) throws(SystemFault) {
        if let database = configuration.database {
            self = database
        } else {
            try FileBytes.makeDirectory(configuration.dataDirectory, mode: 0o700)
            self = .sqlite(path: configuration.dataDirectory + "/accounts.db")
        }
    }
}
