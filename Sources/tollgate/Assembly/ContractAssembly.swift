internal import Accounts
internal import Contracts
internal import Settings
internal import Wire

extension MountTable {
    /// The contracts of `TOLLGATE_CONTRACTS` and the paths of `TOLLGATE_DLAUTH_PATH_`.
    init(_ configuration: Configuration, _ findings: inout Findings) {
        self.init()
        let origin = configuration.origin(of: .contracts)
        for word in configuration.contracts {
            do throws(Mount.Fault) {
                mounts.append(try Mount(parsing: word))
            } catch {
                findings.fault(Finding(origin, Setting.contracts.name, "\(quoted(word)) \(error.message)"))
            }
        }
        for entry in configuration.dlauthPaths { readPath(entry, &findings) }
        guard let clash else { return }
        let message = "\(clash.first.text) and \(clash.second.text) both answer \(clash.request), mount one of them elsewhere"
        findings.fault(Finding(origin, Setting.contracts.name, message))
    }

    private mutating func readPath(_ entry: EnvEntry, _ findings: inout Findings) {
        let endpoints = Catalogue.endpoints(of: .dlauth).filter(\.hasSettablePath)
        let name = entry.name.dropFirst(Setting.dlauthPath.name.count).lowercased().replacing("_", with: "-")
        guard let endpoint = endpoints.first(where: { $0.shortName == name }) else {
            let nearest = (nearestName(to: name, in: endpoints.map(\.shortName)) ?? "user").replacing("-", with: "_").uppercased()
            let message = "is the path of no endpoint, the nearest is \(Setting.dlauthPath.name)\(nearest)"
            return findings.fault(Finding(entry.origin, entry.name, message))
        }
        guard Mount.isPath(entry.value), entry.value != "/" else {
            let message = "\(quoted(entry.value)) is no path, write one like /api/v1/auth/register"
            return findings.fault(Finding(entry.origin, entry.name, message))
        }
        paths[endpoint.name] = entry.value.last == "/" ? String(entry.value.dropLast()) : entry.value
    }
}

extension Provider {
    init(_ name: ProviderName) {
        switch name {
        case .apple: self = .apple
        case .google: self = .google
        }
    }
}
