internal import Fetch
internal import Glibc
internal import Settings
internal import Storage
internal import System
internal import Telemetry
internal import Transport
internal import Wire

/// The probes of `tollgate doctor` on this machine.
struct LocalProbes {
    let configuration: GatewayConfiguration
    let loader: ConfigurationLoader
    let now: WallTime

    private var settings: Configuration { configuration.settings }

    /// Everything but the gateway itself, which is asked beside other servers.
    var findings: [Diagnosis] { descriptors + certificates + secretFiles + space + database + adminToken }

    // MARK: the running gateway

    /// The process that the data folder names, if it lives.
    private var running: LocalJudgements.Running? {
        guard let record = RunningRecord.read(settings.dataDirectory),
            text(of: "/proc/\(record.process)/comm")?.hasPrefix("tollgate") == true
        else { return nil }
        return LocalJudgements.Running(
            version: record.version, runsSettings: record.runs(settings), different: record.differing(from: settings),
            descriptors: hardLimit(of: record.process))
    }

    var gateway: ProbeReport {
        guard let address = settings.adminListeners.first(where: { !$0.address.isAnyPort && !$0.expectsProxyHeader })?.address else {
            return ProbeReport([
                .warn("gateway", "cannot be asked: TOLLGATE_ADMIN_LISTEN names no address with a fixed port, set one like 127.0.0.1:9090")
            ])
        }
        let answer = ReadinessProbe.ask(address, connectMilliseconds: 2_000, milliseconds: 4_000).flatMap { ended in
            Readiness(ended.body.rawBytes).map { .success($0) }
                ?? .failure(ReadinessProbe.Fault(text: "status \(ended.status) without a readiness"))
        }
        return ProbeReport(LocalJudgements.gateway(address.description, answer, running))
    }

    private var descriptors: [Diagnosis] {
        let running = running?.descriptors
        guard let limit = running ?? hardLimit(of: Int(getpid())) else { return [] }
        let limits = LoadLimits(settings, workers: settings.workers ?? coreCount, descriptors: limit)
        return [LocalJudgements.descriptors(limits, settings, descriptors: limit, isOwn: running == nil)]
    }

    /// The hard limit of open descriptors; a gateway raises its soft one to it.
    private func hardLimit(of process: Int) -> Int? {
        let line = text(of: "/proc/\(process)/limits")?.split(separator: "\n").first { $0.hasPrefix("Max open files") }
        return line?.split(separator: " ").dropFirst(4).first.flatMap { Int($0) }
    }

    private func text(of path: String) -> String? {
        do throws(SystemFault) {
            return String(decoding: try FileBytes.read(path, limit: 1 << 16), as: UTF8.self)
        } catch {
            return nil
        }
    }

    // MARK: files

    private var certificates: [Diagnosis] {
        let isHTTPS = settings.publicURL.hasPrefix("https://")
        let authority = settings.publicURL.split(separator: "/").dropFirst().first.map(String.init) ?? ""
        var host = authority
        do throws(ParseError) { host = try HostAndPort(authority, defaultPort: 443).host } catch { /* `check` refuses such a URL. */  }
        // An authority issues the certificate of that host, and another probe looks at it.
        let isIssued = settings.acmeDirectory != nil && settings.certificateNames.contains(host)
        var facts: [CertificateFacts] = []
        var faults: [Diagnosis] = []
        for pair in settings.tlsPairs {
            do throws(TLSFault) {
                facts.append(try CertificateFacts(of: pair.certificate, host: host))
            } catch {
                faults.append(.fail("certificate \(pair.certificate)", error.description))
            }
        }
        return faults + LocalJudgements.certificates(facts, host: isHTTPS && !isIssued ? host : nil, now: now)
    }

    private var secretFiles: [Diagnosis] {
        secretPaths.compactMap { path, isOptional in
            do throws(SystemFault) {
                return LocalJudgements.secretFile(path, mode: try FileBytes.stamp(path).mode)
            } catch {
                return isOptional && error.errno == ENOENT ? nil : LocalJudgements.secretFile(path, mode: nil, reason: error.reason)
            }
        }
    }

    /// The files with secrets, each once, and whether one need not exist.
    private var secretPaths: [(path: String, isOptional: Bool)] {
        let folder = settings.dataDirectory
        var paths = ["keys/ring.pem", "keys/refresh.key", "keys/admin-token", "accounts.db"].map {
            (path: "\(folder)/\($0)", isOptional: true)
        }
        var entries = loader.environment.map { EnvEntry(name: $0.name, value: $0.value, origin: .environment) }
        for file in loader.files {
            let found = EnvFile.parse(file.bytes, name: file.name).entries
            entries += found
            if found.contains(where: holdsSecret) { paths.append((file.name, false)) }
        }
        for entry in entries {
            if Setting.secretFile(entry.name) != nil, !entry.value.isEmpty { paths.append((entry.origin.path(entry.value), false)) }
            for (setting, key) in [(Setting.trust, "secret-file="), (.scopedAdminToken, "token-file=")]
            where Setting.named(entry.name) == setting {
                let named = entry.value.split(separator: " ").filter { $0.hasPrefix(key) }
                paths += named.map { (entry.origin.path(String($0.dropFirst(key.count))), false) }
            }
        }
        paths += storeKeys.map { ($0.path, false) }
        paths += settings.tlsPairs.map { ($0.key, false) }
        var known: Set<String> = []
        return paths.filter { known.insert($0.path).inserted }
    }

    /// The files with keys and secrets that the lines of stores name.
    private var storeKeys: [NamedFile] {
        [
            settings.appleStore?.apiKey, settings.googleStore?.serviceAccount, settings.stripeStore?.apiKey,
            settings.revenueCatStore?.authorization,
        ]
        .compactMap(\.self) + (settings.stripeStore?.secrets ?? [])
    }

    /// The URL of a server is a secret only with a user or password in it; that of a webhook may be one as a whole.
    private func holdsSecret(_ entry: EnvEntry) -> Bool {
        guard let setting = Setting.named(entry.name), setting.isSecret, !entry.value.isEmpty else { return false }
        return !setting.isURL || setting == .smsURL || entry.value.contains("@") || entry.value.contains("password")
    }

    private var space: [Diagnosis] {
        do throws(SystemFault) {
            return [LocalJudgements.space(try FileSystemSpace(of: settings.dataDirectory), of: settings.dataDirectory)]
        } catch {
            guard error.errno != ENOENT else {
                return [.ok("data folder \(settings.dataDirectory)", "does not exist yet: `tollgate serve` makes it at its start")]
            }
            return [.fail("data folder \(settings.dataDirectory)", "\(error.description): run doctor as the user of the gateway")]
        }
    }

    /// The embedded database; a server is asked beside other servers.
    private var database: [Diagnosis] {
        let path: String
        switch configuration.database {
        case .postgres?: return []
        case .sqlite(let file)?: path = file
        case nil:
            guard settings.usesStore else { return [] }
            path = settings.dataDirectory + "/accounts.db"
        }
        do throws(SystemFault) {
            _ = try FileBytes.stamp(path)
        } catch {
            return [missing(path, error)]
        }
        do throws(StoreInspection.Fault) {
            return RemoteJudgements.database(path, try StoreInspection(of: .sqlite(path: path)))
        } catch {
            return [RemoteJudgements.unreachable("database", path, error.reason)]
        }
    }

    /// The gateway makes the file, and its folder only where that is the data folder.
    private func missing(_ path: String, _ fault: SystemFault) -> Diagnosis {
        let subject = "database \(path)"
        guard fault.errno == ENOENT else {
            return fault.errno == EACCES
                ? .warn(subject, "cannot be looked at (\(fault.reason)): run doctor as the user of the gateway")
                : .fail(subject, "cannot be opened (\(fault.reason)): set DATABASE_URL or TOLLGATE_DATA_DIR to another path")
        }
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
        if case .sqlite? = configuration.database, !folder.isEmpty, folder != settings.dataDirectory, !exists(folder) {
            return .fail(
                subject, "cannot be made, as there is no folder \(folder): make it for the user of the gateway, or correct DATABASE_URL")
        }
        return .ok(subject, "does not exist yet: `tollgate serve` makes it at its start")
    }

    private func exists(_ path: String) -> Bool {
        do throws(SystemFault) {
            _ = try FileBytes.stamp(path)
            return true
        } catch {
            return error.errno != ENOENT
        }
    }

    private var adminToken: [Diagnosis] { settings.adminToken.map { [LocalJudgements.adminToken($0)] } ?? [] }
}
