internal import Credentials
internal import Gate
internal import Glibc
internal import Issuers
internal import Mail
internal import Settings
internal import System
internal import Transport
internal import Wire

/// The settings as read, and every fault that was found in them.
struct LoadedConfiguration: Sendable {
    /// Defaults stand in for settings with faults.
    var partial: GatewayConfiguration
    var findings: Findings

    /// nil if there are faults.
    var configuration: GatewayConfiguration? { findings.faults.isEmpty ? partial : nil }

    /// Opens no file that a setting names, except secrets and key sets.
    init(_ sources: SettingSources) {
        let loaded = Settings.load(sources)
        findings = loaded.findings
        partial = GatewayConfiguration(loaded.partial, &findings)
        findings = findings.sorted(files: sources.files.map(\.name))
    }
}

/// Loads the configuration from env files and the process environment, at the start and on each reload.
struct ConfigurationLoader: Sendable {
    /// Read if it exists and the command line names no file.
    static let usualFile = "config/tollgate.env"

    /// From the command line; later ones win.
    var envFiles: [String]
    var environment: [(name: String, value: String)]

    /// Reads everything again: files, environment, and the files that settings name. Blocking.
    func load(now: WallTime) -> LoadedConfiguration {
        let (files, unreadable) = readFiles()
        var missing = unreadable
        var loaded = load(files, now: now)
        missing.add(loaded.findings)
        loaded.findings = missing.sorted(files: envFiles.isEmpty ? [Self.usualFile] : envFiles)
        return loaded
    }

    /// The env files that can be read.
    var files: [(name: String, bytes: [UInt8])] { readFiles().files }

    private func readFiles() -> (files: [(name: String, bytes: [UInt8])], missing: Findings) {
        var files: [(name: String, bytes: [UInt8])] = []
        var missing = Findings()
        for path in envFiles.isEmpty ? [Self.usualFile] : envFiles {
            switch Self.read(path) {
            case .success(let bytes): files.append((path, bytes))
            case .failure(let fault) where envFiles.isEmpty && fault.errno == ENOENT: break
            case .failure(let fault):
                missing.fault(Finding(.wholeFile(path), nil, "cannot be read (\(fault.reason)), give the path of an env file"))
            }
        }
        return (files, missing)
    }

    /// As if there were one env file with this text at `path`, which need not exist.
    func load(_ text: String, as path: String, now: WallTime) -> LoadedConfiguration {
        load([(path, Array(text.utf8))], now: now)
    }

    private func load(_ files: [(name: String, bytes: [UInt8])], now: WallTime) -> LoadedConfiguration {
        var loaded = LoadedConfiguration(SettingSources(files: files, environment: environment) { Self.readText($0) })
        MaterialCheck.check(loaded.partial, now: now, &loaded.findings)
        for pair in loaded.partial.settings.tlsPairs where loaded.partial.settings.acmeDirectory != nil {
            // One that cannot be read is a fault already.
            guard let text = try? FileBytes.read(pair.certificate, limit: EnvFile.maximumBytes),
                let leaf = try? PublicKeyPin.all(in: text.rawBytes).first?.certificate
            else { continue }
            loaded.partial.settings.fileNames.formUnion(leaf.hostNames.map { $0.lowercased() })
        }
        return loaded
    }

    private static func readText(_ path: String) -> Result<[UInt8], UnreadableFile> {
        read(path).mapError { UnreadableFile(reason: $0.reason) }
    }

    private static func read(_ path: String) -> Result<[UInt8], SystemFault> {
        do {
            return .success(try FileBytes.read(path, limit: EnvFile.maximumBytes))
        } catch {
            return .failure(error)
        }
    }
}

/// The faults that show only when certificates, CAs and the signing key are opened.
enum MaterialCheck {
    static func check(_ configuration: GatewayConfiguration, now: WallTime, _ findings: inout Findings) {
        checkSigningKey(configuration, now: now, &findings)
        for pair in configuration.settings.tlsPairs {
            do {
                let material = TLSCertificatePair(certificate: pair.certificate, key: pair.key)
                for warning in try TLSServerContext(pairs: [material], now: now).warnings {
                    findings.warn(Finding(pair.origin, Setting.tlsCert.name, warning))
                }
            } catch {
                let text = error.describe(orGive: "give PEM files of a certificate and its key")
                findings.fault(Finding(pair.origin, Setting.tlsCert.name, text))
            }
        }
        if let path = configuration.settings.tlsClientAuthority {
            checkAuthority(path, configuration.settings.origin(of: .tlsClientCA), Setting.tlsClientCA.name, &findings)
            checkLists(of: path, configuration.settings, now: now, &findings)
        }
        if let path = configuration.settings.tracing.authorityFile {
            checkAuthority(path, configuration.settings.origin(of: .otlpCertificate), Setting.otlpCertificate.name, &findings)
        }
        checkClientCertificate(configuration.settings, now: now, &findings)
        checkOrders(configuration.settings, &findings)
        for route in configuration.settings.routes {
            guard let sunset = route.rule.sunset, sunset <= now else { continue }
            findings.warn(route, "has sunset=, which is past, so every request gets 410: remove the route, or write a later day")
        }
        checkNetworks(configuration.settings, &findings)
        PurchaseStores.check(configuration.settings, &findings)
        AppleKeyPlan.check(configuration.settings, &findings)
        Webhooks.check(configuration.settings, &findings)
        for upstream in configuration.settings.upstreams {
            if let path = upstream.authorityFile { checkAuthority(path, option: "tls-ca", upstream.origin, upstream.variable, &findings) }
            checkPair(of: upstream, &findings)
        }
        if let path = configuration.mail.mail?.server.authorityFile {
            checkAuthority(path, option: "tls-ca", configuration.settings.origin(of: .smtpURL), Setting.smtpURL.name, &findings)
        }
    }

    /// `option` is the one of the setting's line that names the file; nil if the whole setting does.
    private static func checkAuthority(
        _ path: String, option: String? = nil, _ origin: Origin, _ name: String, _ findings: inout Findings
    ) {
        do {
            _ = try TLSClientContext(authorityFile: path)
        } catch {
            let text = error.describe(orGive: "give a PEM file of the CA's certificate")
            findings.fault(Finding(origin, name, option.map { "\($0)= is of no use: \(text)" } ?? text))
        }
    }

    /// The files that orders of certificates need.
    private static func checkOrders(_ settings: Configuration, _ findings: inout Findings) {
        guard settings.acmeDirectory != nil else { return }
        if let path = settings.acmeAuthority { checkAuthority(path, settings.origin(of: .acmeCA), Setting.acmeCA.name, &findings) }
        // A name without a slash is looked up in PATH.
        guard settings.acmeChallenge == .dns, case .program(let path)? = settings.acmeDNS, path.contains("/") else { return }
        if let reason = FileBytes.reasonNotToRun(path) {
            findings.fault(
                Finding(
                    settings.origin(of: .acmeDNS), Setting.acmeDNS.name,
                    "cannot run \(path) (\(reason)), give the path of an executable file"))
        }
    }

    /// The files of lists of networks.
    private static func checkNetworks(_ settings: Configuration, _ findings: inout Findings) {
        for (list, place) in settings.networkLists {
            let option = place.message.isEmpty ? "" : "\(place.message) names a file that is of no use: "
            for path in list.files {
                do throws(NetworkFileFault) {
                    let networks = try NetworkLists.read(path)
                    guard networks.isEmpty, list.networks.isEmpty, place.message == "allow-from=" else { continue }
                    findings.warn(
                        Finding(place.origin, place.name, "allow-from= names \(path), which has no network, so no request passes"))
                } catch {
                    findings.fault(Finding(place.origin, place.name, option + error.description))
                }
            }
        }
    }

    private static func checkLists(of authority: String, _ settings: Configuration, now: WallTime, _ findings: inout Findings) {
        guard !settings.tlsRevocationLists.isEmpty else { return }
        let place = { Finding(settings.origin(of: .tlsClientCRL), Setting.tlsClientCRL.name, $0) }
        do throws(TLSFault) {
            let files = try settings.tlsRevocationLists.map { path throws(TLSFault) in try TLSRevocationFile(path) }
            let (lists, warnings) = try TLSServerContext.revocationLists(files, of: try TLSAuthorityFile(authority))
            for warning in warnings + TLSRevocationList.faults(of: lists, now: now) { findings.warn(place(warning)) }
        } catch {
            findings.fault(place(error.describe(orGive: "give files of lists of revoked certificates")))
        }
    }

    private static func checkPair(of upstream: UpstreamDeclaration, _ findings: inout Findings) {
        guard let pair = upstream.pair else { return }
        do throws(TLSFault) {
            if let warning = try TLSClientContext(pair: pair).warning { findings.warn(upstream, "tls-cert= may be of no use: \(warning)") }
        } catch {
            findings.fault(upstream, "tls-cert= is of no use: \(error.describe(orGive: "give PEM files of a certificate and its key"))")
        }
    }

    /// The certificate for the collector of traces.
    private static func checkClientCertificate(_ settings: Configuration, now: WallTime, _ findings: inout Findings) {
        let (certificate, key) = (settings.tracing.clientCertificate, settings.tracing.clientKey)
        let place = { (ofTraces: Setting, general: Setting) in
            let name = settings.origin(of: ofTraces) == .builtIn ? general : ofTraces
            return { (text: String) in Finding(settings.origin(of: name), name.name, text) }
        }
        let ofCertificate = place(.otlpTracesClientCertificate, .otlpClientCertificate)
        guard let certificate, let key else {
            if certificate != nil { findings.fault(ofCertificate("needs \(Setting.otlpClientKey.name), the file of its key, too")) }
            if key != nil {
                let ofKey = place(.otlpTracesClientKey, .otlpClientKey)
                findings.fault(ofKey("needs \(Setting.otlpClientCertificate.name), the file of its certificate, too"))
            }
            return
        }
        do {
            let pair = TLSCertificatePair(certificate: certificate, key: key)
            for warning in try TLSServerContext(pairs: [pair], now: now).warnings { findings.warn(ofCertificate(warning)) }
        } catch {
            findings.fault(ofCertificate(error.describe(orGive: "give PEM files of a certificate and its key")))
        }
    }

    /// Warns if `TOLLGATE_SIGNING_ALGORITHM` differs from the key that signs now: it takes effect at the next rotation.
    private static func checkSigningKey(_ configuration: GatewayConfiguration, now: WallTime, _ findings: inout Findings) {
        // `check` connects to no database.
        guard configuration.settings.jwtSecret == nil, IssuersPlan(configuration).sharing == nil else { return }
        let name = Setting.plain(\.signingAlgorithm).name
        do {
            guard let key = try KeyStore.peek(IssuersPlan(configuration), now: now)?.active else { return }
            guard key.algorithm != configuration.settings.signingAlgorithm else { return }
            for route in configuration.settings.routes where key.algorithm.isSymmetric && route.rule.signsIdentity {
                let message =
                    "has identity=signed and the current key signs with \(key.algorithm.name), a secret that its upstream cannot have: run tollgate keys rotate"
                findings.fault(route, message)
            }
            let wanted = configuration.settings.signingAlgorithm.name
            let message =
                "is \(wanted) and the current key signs with \(key.algorithm.name), run tollgate keys rotate to sign with \(wanted)"
            findings.warn(Finding(configuration.settings.origin(of: Setting.plain(\.signingAlgorithm)), name, message))
        } catch {
            findings.warn(Finding(configuration.settings.origin(of: Setting.plain(\.signingAlgorithm)), name, error.description))
        }
    }
}
