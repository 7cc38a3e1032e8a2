internal import Accounts
internal import Contracts
internal import Storage
internal import Wire

/// Accounts and the contracts through which apps reach them.
extension ConfigurationReader {
    mutating func readAccounts() {
        configuration.contracts.mounts = words(.contracts).compactMap { word in
            take(.contracts, word) { text throws(ParseError) in try Self.mount(text) }
        }
        for (name, entry) in family(.dlauthPath) { readPath(entry, of: name) }
        checkMounts()
        for (name, entry) in family(.provider) where !entry.value.isEmpty {
            let (provider, found) = ProviderLine.parse(entry, name: name, sources)
            findings.add(found)
            if let provider { configuration.providers.append(provider) }
        }
        readDatabase()
        configuration.mustConfirmEmail = choice(.requireConfirmedEmail) == "true"
        configuration.refreshGraceSeconds = Int64((duration(.refreshGrace) ?? 0) / 1000)
        configuration.tierGraceSeconds = Int64((duration(.tierGrace) ?? 0) / 1000)
    }

    private static func mount(_ text: String) throws(ParseError) -> Mount {
        do {
            return try Mount(parsing: text)
        } catch {
            throw ParseError(error.message)
        }
    }

    private mutating func readPath(_ entry: EnvEntry, of name: String) {
        guard !entry.value.isEmpty else { return }
        let endpoints = Catalogue.endpoints(of: .dlauth).map(\.shortName)
        let endpoint = name.replacing("_", with: "-")
        guard endpoints.contains(endpoint) else {
            let nearest = (nearestName(to: endpoint, in: endpoints) ?? "user").replacing("-", with: "_").uppercased()
            let message = "is the path of no endpoint, the nearest is \(Setting.dlauthPath.name)\(nearest)"
            return findings.fault(Finding(entry.origin, entry.name, message))
        }
        guard Mount.isPath(entry.value), entry.value != "/" else {
            let message = "\(quoted(entry.value)) is no path, write one like /api/v1/auth/register"
            return findings.fault(Finding(entry.origin, entry.name, message))
        }
        let path = entry.value.last == "/" ? String(entry.value.dropLast()) : entry.value
        configuration.contracts.dlauthPaths[endpoint] = path
    }

    private mutating func checkMounts() {
        guard let clash = configuration.contracts.clash else { return }
        let message = "\(clash.first.text) and \(clash.second.text) both answer \(clash.request), mount one of them elsewhere"
        fault(.contracts, message)
    }

    private mutating func readDatabase() {
        readDatabaseURL()
        configuration.keySecret = secret(.keySecret).flatMap { $0.isEmpty ? nil : $0 }
        if let secret = configuration.keySecret, secret.count < 32 {
            secretFault(.keySecret, "is easy to guess, give 32 random bytes or more")
        }
        guard configuration.sharesDatabase, configuration.keySecret == nil, configuration.jwtSecret == nil else { return }
        let origin = values.secret(.databaseURL)?.origin ?? .builtIn
        let message = "is a database that several gateways can share, but this one keeps its signing keys to itself: set TOLLGATE_KEY_SECRET, the same on all of them, or each refuses the tokens of the others"
        findings.warn(Finding(origin, Setting.databaseURL.name, message))
    }

    private mutating func readDatabaseURL() {
        guard let url = secret(.databaseURL), !url.isEmpty else { return }
        configuration.databaseURL = url.rawBytes.text
        do {
            _ = try StoreLocation(url: url.rawBytes.text)
        } catch {
            let origin = values.secret(.databaseURL)?.origin ?? .builtIn
            findings.fault(Finding(origin, Setting.databaseURL.name, error.description))
        }
    }
}

extension Configuration {
    /// Whether the accounts are where other machines can reach them too.
    var sharesDatabase: Bool {
        // A URL that is none has been told of.
        databaseURL.flatMap { try? StoreLocation(url: $0) }?.isServer == true
    }
}
