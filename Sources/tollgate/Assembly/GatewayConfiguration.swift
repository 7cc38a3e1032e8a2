internal import Accounts
internal import Contracts
internal import Credentials
internal import Mail
internal import Redis
internal import Settings
internal import Storage
internal import System
internal import Wire

/// The settings, and what other targets parse from the texts among them.
struct GatewayConfiguration: Sendable {
    var settings: Configuration
    /// The mounted contracts.
    var contracts = MountTable()
    /// The endpoints of the account page whose paths no route takes.
    var pages: [MountedEndpoint] = []
    /// The paths that routes for all paths lose to contracts, the account page and the gateway itself.
    var taken: [TakenPaths] = []
    /// nil: limits are counted in process.
    var redis: RedisEndpoint?
    /// nil: a file in the data folder.
    var database: StoreLocation?
    /// Where notifications of changes come from; nil: from `database`.
    var directDatabase: StoreLocation?
    var mail: MailPlan
    /// The lifetimes of sessions and tokens, by contract.
    var sessionPolicies: SessionPolicies

    /// Parses the texts that `Settings` leaves to other targets; each fault becomes a finding.
    init(_ settings: Configuration, _ findings: inout Findings) {
        self.settings = settings
        contracts = MountTable(settings, &findings)
        let routes = RouteChecks(settings, contracts)
        findings.add(routes.findings)
        (pages, taken) = (routes.pages, routes.taken)
        redis = RedisEndpoint.read(settings, &findings)
        database = StoreLocation.read(settings, &findings)
        directDatabase = StoreLocation.readDirect(settings, besides: database, &findings)
        mail = MailPlan(settings, &findings)
        sessionPolicies = SessionPolicies(settings, &findings)
    }

    /// All endpoints of the contracts and of the account page, in the order in which the policy has them behind the routes.
    var endpoints: [MountedEndpoint] { contracts.endpoints + pages }

    /// Keeps what only a restart changes as it is in `running`; returns the settings that differed.
    mutating func keepUnchangeable(of running: GatewayConfiguration) -> [String] {
        redis = running.redis
        database = running.database
        directDatabase = running.directDatabase
        return settings.keepUnchangeable(of: running.settings)
    }
}

extension RedisEndpoint {
    /// The Redis of `REDIS_URL`. No fault quotes the URL, which may hold a password.
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
    /// The database of the settings. Warns if gateways could share it and not their signing keys.
    fileprivate static func read(_ settings: Configuration, _ findings: inout Findings) -> StoreLocation? {
        guard let url = settings.databaseURL else { return nil }
        let setting = settings.databaseSetting
        let origin = settings.origin(of: setting)
        do throws(Fault) {
            let location = try StoreLocation(url: url, schema: settings.databaseSchema)
            if let reason = location.otherProgram { throw Fault(description: "names a file that \(reason)") }
            if location.isServer, settings.keySecret == nil, settings.jwtSecret == nil {
                let message =
                    "is a database that several gateways can share, but this one keeps its signing keys to itself: set TOLLGATE_KEY_SECRET, the same on all of them, or each refuses the tokens of the others"
                findings.warn(Finding(origin, setting.name, message))
            }
            return location
        } catch {
            findings.fault(Finding(origin, setting.name, error.description))
            return nil
        }
    }

    /// The server itself, where `database` is a pooler before it.
    fileprivate static func readDirect(
        _ settings: Configuration, besides database: StoreLocation?, _ findings: inout Findings
    ) -> StoreLocation? {
        guard let url = settings.databaseDirectURL else { return nil }
        let setting = settings.databaseDirectSetting
        let origin = settings.origin(of: setting)
        do throws(Fault) {
            let direct = try StoreLocation(url: url, schema: settings.databaseSchema)
            guard direct.isServer else { throw Fault(description: "names a file: write postgres://user:password@host/database") }
            guard settings.databaseURL != nil, database?.isServer != false else {
                throw Fault(
                    description:
                        "is for a DATABASE_URL that names a pooler before PostgreSQL, and it names none: set DATABASE_URL=postgres://…, or remove this"
                )
            }
            return direct
        } catch {
            findings.fault(Finding(origin, setting.name, error.description))
            return nil
        }
    }

    /// The configured database, else a file in the data folder.
    static func configured(_ configuration: GatewayConfiguration) -> StoreLocation {
        configuration.database ?? .sqlite(path: configuration.settings.dataDirectory + "/accounts.db")
    }

    /// The same; the data folder is made if the file is to be there.
    init(_ configuration: GatewayConfiguration) throws(SystemFault) {
        self = .configured(configuration)
        if configuration.database == nil { try FileBytes.makeDirectory(configuration.settings.dataDirectory, mode: 0o700) }
    }
}
