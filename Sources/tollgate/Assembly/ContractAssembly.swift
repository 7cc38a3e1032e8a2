internal import Accounts
internal import Contracts
internal import Credentials
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
        warnOfMissingProviders(configuration, &findings)
        readOwn(configuration, &findings)
        guard let clash else { return }
        let message = "\(clash.first) and \(clash.second) both answer \(clash.request), mount one of them elsewhere"
        findings.fault(Finding(origin, Setting.contracts.name, message))
    }

    /// Warns of contracts of which no provider is set up. Not of the default, which mounts every contract.
    private func warnOfMissingProviders(_ configuration: Configuration, _ findings: inout Findings) {
        let origin = configuration.origin(of: .contracts)
        guard origin != .builtIn else { return }
        for mount in mounts {
            let providers = Catalogue.providers(of: mount.contract)
            guard !providers.isEmpty, !configuration.providers.contains(where: { Catalogue.takes($0.name, mount.contract) }) else {
                continue
            }
            let names = providers.map { Setting.provider.name + $0.rawValue.uppercased() }.joined(separator: " or ")
            let message =
                "\(mount.text) refuses every sign-in, as none of its providers is set up: set \(names) to the client-ids= of your apps, or leave the contract out"
            findings.warn(Finding(origin, Setting.contracts.name, message))
        }
    }

    /// The endpoints beside those of contracts.
    private mutating func readOwn(_ configuration: Configuration, _ findings: inout Findings) {
        if let account = configuration.account {
            let endpoints = Catalogue.accountEndpoints(factors: configuration.factor != .off, passkeys: configuration.passkey != nil)
            mount("account", account.base, endpoints, .account, account.origin, "that a user could see", configuration, &findings)
        }
        if let base = configuration.purchaseBase {
            let setting = Setting.plain(\.purchasesPath)
            let stores = Set(configuration.purchaseStores.compactMap(PurchaseSource.init(rawValue:)))
            mount(
                "purchases", base, Catalogue.purchaseEndpoints(of: stores), setting, configuration.origin(of: setting), "that could buy",
                configuration, &findings)
        }
    }

    private mutating func mount(
        _ name: String, _ base: String, _ endpoints: [CatalogueEndpoint], _ setting: Setting, _ origin: Origin, _ accounts: String,
        _ configuration: Configuration, _ findings: inout Findings
    ) {
        guard let mount = OwnMount(name, base: base, endpoints) else {
            return findings.fault(Finding(origin, setting.name, "\(quoted(base)) is no path, write one like /\(name)"))
        }
        own.append(mount)
        guard !configuration.hasAccounts else { return }
        let message = "is set and there are no accounts \(accounts), mount a contract by \(Setting.contracts.name)"
        findings.warn(Finding(origin, setting.name, message))
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

extension SessionPolicies {
    /// Those of `TOLLGATE_ACCESS_TTL_`, `TOLLGATE_REFRESH_TTL_` and `TOLLGATE_DEVICE_KEY_`.
    init(_ configuration: Configuration, _ findings: inout Findings) {
        self.init()
        for entry in configuration.accessLifetimes {
            guard let contract = Self.contract(entry, .accessLifetime, &findings) else { continue }
            let longest = contract.sessionPolicy.accessSeconds
            guard let seconds = Self.seconds(entry, 1...longest, "the document of \(contract.name) allows", &findings) else { continue }
            self[contract].accessSeconds = seconds
            // Without refresh tokens a session ends with its access token.
            if contract.sessionPolicy.refresh == .none { self[contract].idleSeconds = seconds }
        }
        for entry in configuration.refreshLifetimes {
            guard let contract = Self.contract(entry, .refreshLifetime, &findings) else { continue }
            guard contract.sessionPolicy.refresh != .none else {
                findings.fault(Finding(entry.origin, entry.name, "is of a contract without refresh tokens, remove it"))
                continue
            }
            // Shorter than that, a session would end before its access token.
            let bounds = self[contract].accessSeconds...contract.sessionPolicy.idleSeconds
            let why = "the access tokens of \(contract.name) and its document allow"
            if let seconds = Self.seconds(entry, bounds, why, &findings) { self[contract].idleSeconds = seconds }
        }
        for entry in configuration.deviceKeys {
            guard let contract = Self.contract(entry, .deviceKey, &findings) else { continue }
            do throws(ParseError) {
                let word = try TypedText.choice(entry.value, DeviceKeyUse.allCases.map(\.rawValue))
                self[contract].deviceKey = DeviceKeyUse(rawValue: word) ?? .offered
            } catch {
                findings.fault(Finding(entry.origin, entry.name, "\(quoted(entry.value)) \(error.text)"))
            }
        }
    }

    private static func contract(_ entry: EnvEntry, _ setting: Setting, _ findings: inout Findings) -> ContractID? {
        let name = entry.name.dropFirst(setting.name.count).lowercased()
        if let contract = ContractID.allCases.first(where: { $0.name == name }) { return contract }
        let nearest = nearestName(to: name, in: ContractID.allCases.map(\.name)) ?? ""
        let message = "is of no contract, the nearest is \(setting.name)\(nearest.uppercased())"
        findings.fault(Finding(entry.origin, entry.name, message))
        return nil
    }

    private static func seconds(
        _ entry: EnvEntry, _ bounds: ClosedRange<Int64>, _ why: String, _ findings: inout Findings
    ) -> Int64? {
        func text(_ seconds: Int64) -> String { DurationText.text(UInt64(seconds) * 1_000) }
        do throws(ParseError) {
            let milliseconds = try TypedText.duration(entry.value, 0...UInt64(Int64.max))
            let seconds = Int64(milliseconds / 1_000)
            if bounds.contains(seconds) { return seconds }
            throw ParseError(
                "is out of range, write a duration from \(text(bounds.lowerBound)) to \(text(bounds.upperBound)), which \(why)")
        } catch {
            findings.fault(Finding(entry.origin, entry.name, "\(quoted(entry.value)) \(error.text)"))
            return nil
        }
    }
}
