internal import Credentials
internal import Gate
internal import Issuers
internal import Mail
internal import Redis
internal import Settings
internal import Storage
internal import System
internal import Transport
internal import Wire

/// The probes of `tollgate doctor` that ask other servers.
enum RemoteProbes {
    private static let milliseconds: Int32 = 3_000

    static func all(_ configuration: GatewayConfiguration) -> [ProbeRun.Probe] {
        let settings = configuration.settings
        var probes: [ProbeRun.Probe] = []
        for upstream in settings.upstreams {
            for base in upstream.bases {
                probes.append(.init(name: "upstream \(upstream.name) \(base.text)") { self.upstream(upstream, base) })
            }
        }
        for taken in configuration.taken where taken.route.rule.strip == nil {
            guard let upstream = settings.upstreams.first(where: { $0.name == taken.route.upstream }),
                let base = upstream.bases.first(where: { !$0.isService && answers(upstream, $0) })
            else { continue }
            probes.append(.init(name: "paths of upstream \(upstream.name)") { self.taken(taken, upstream, base) })
        }
        for holder in settings.trusts + settings.providers.map(\.source) + settings.attestations.map(\.source) {
            guard case .url(let url) = holder.keySource else { continue }
            probes.append(.init(name: "issuer \(holder.name)") { issuer(holder, url) })
        }
        for file in AppFile.all(settings) { probes.append(.init(name: file.subject) { appFile(file) }) }
        if let redis = configuration.redis { probes += RedisProbes.all(redis) }
        if let database = configuration.database, database.isServer {
            let name = settings.databaseSetting.name
            probes.append(
                .init(name: "database \(name)") { self.database(name, database, settings.keySecret, sharesKeys: settings.jwtSecret == nil) }
            )
        }
        if let mail = configuration.mail.mail?.server {
            probes.append(.init(name: "mail server \(mail.hostAndPort)") { self.mail(mail) })
        }
        if let url = settings.tracing.url {
            probes.append(.init(name: "collector \(maskingURLSecrets(url))") { collector(settings.tracing, url) })
        }
        return probes
    }

    // MARK: HTTP

    /// An export of no spans, which a collector has to take (OTLP: a request without telemetry succeeds).
    private static func collector(_ settings: TraceSettings, _ url: String) -> ProbeReport {
        let (name, plan) = (maskingURLSecrets(url), TracePlan(settings, instance: ""))
        do {
            let answer = try ProbeTransfer.post(#"{"resourceSpans":[]}"#, to: url, of: plan)
            return ProbeReport([RemoteJudgements.collector(name, status: answer.status)], clocks: [answer.clock].compactMap(\.self))
        } catch {
            return ProbeReport([RemoteJudgements.unreachable("collector", name, error.reason)])
        }
    }

    private static func upstream(_ upstream: UpstreamDeclaration, _ base: UpstreamBase) -> ProbeReport {
        let subject = "\(upstream.name) \(base.text)"
        var path: String?
        if case .path(let text)? = upstream.settings.health { path = text }
        do {
            // libcurl finds no services.
            if case .service(let name) = base.endpoint {
                return ProbeReport([.ok("upstream \(subject)", "has \(counted(try Resolver.services(name).count, "server")) in DNS")])
            }
            if !answers(upstream, base), case .host(let host, let port) = base.endpoint {
                try Reachability.check(try Resolver.resolve(host: host, port: port), milliseconds: milliseconds)
                return ProbeReport([RemoteJudgements.upstream(upstream.name, base.text, status: nil, isHealthCheck: false)])
            }
            let answer = try ask(upstream, base, base.pathPrefix + (path ?? "/"))
            let finding = RemoteJudgements.upstream(upstream.name, base.text, status: answer.status, isHealthCheck: path != nil)
            return ProbeReport([finding], clocks: [answer.clock].compactMap(\.self))
        } catch {
            return ProbeReport([RemoteJudgements.unreachable("upstream", subject, reason(error))])
        }
    }

    /// Whether `base` can be asked for a path: the request here is HTTP/1.1, shows no certificate, and wants one for the host of the URL.
    private static func answers(_ upstream: UpstreamDeclaration, _ base: UpstreamBase) -> Bool {
        !upstream.speaksHTTP2 && !(base.isTLS && (upstream.tlsName != nil || upstream.pair != nil))
    }

    /// Asks an upstream that is no service of DNS for a path.
    private static func ask(
        _ upstream: UpstreamDeclaration, _ base: UpstreamBase, _ path: String
    ) throws(ProbeTransfer.Fault) -> ProbeTransfer.Answer {
        var (url, socket): (String, String?) = ((base.isTLS ? "https://" : "http://") + authority(base.endpoint), nil)
        if case .unix(let path) = base.endpoint { (url, socket) = ("http://localhost", path) }
        return try ProbeTransfer.get(
            url + path, source: "upstream \(upstream.name)", unixSocket: socket, authorityFile: upstream.authorityFile)
    }

    /// Whether an upstream has paths that its route for all paths loses: it answers them with another status than invented paths
    /// beside them. Takes up to 9 s.
    private static func taken(_ taken: TakenPaths, _ upstream: UpstreamDeclaration, _ base: UpstreamBase) -> ProbeReport {
        let end = EventLoop.now().monotonic.advanced(milliseconds: 5_000)
        var (others, found): ([String: Int], TakenPaths) = ([:], taken)
        found.paths = []
        do {
            for path in taken.paths where EventLoop.now().monotonic < end {
                let asked = path.hasSuffix("*") ? String(path.dropLast()) : path
                let folder = asked.dropLast().lastIndex(of: "/").map { String(asked[...$0]) } ?? "/"
                let other = folder + "tollgate-doctor-asks" + (asked.hasSuffix("/") ? "/" : "")
                let status = try others[other] ?? ask(upstream, base, base.pathPrefix + other).status
                others[other] = status
                if try ask(upstream, base, base.pathPrefix + asked).status != status { found.paths.append(path) }
            }
        } catch {
            return ProbeReport()  // The probe of the upstream itself says why.
        }
        return ProbeReport(found.paths.isEmpty ? [] : [RemoteJudgements.taken(found, by: base.text)])
    }

    private static func authority(_ endpoint: UpstreamEndpoint) -> String {
        guard case .host(let host, let port) = endpoint else { return "" }
        return (host.contains(":") ? "[\(host)]" : host) + ":\(port)"
    }

    private static func issuer(_ trust: TrustDeclaration, _ url: String) -> ProbeReport {
        do {
            let answer = try ProbeTransfer.get(url, source: "issuer \(trust.name)", redirects: 3)
            let findings = RemoteJudgements.keySet(trust.name, url, status: answer.status, body: answer.body, algorithms: trust.algorithms)
            return ProbeReport(findings, clocks: [answer.clock].compactMap(\.self))
        } catch {
            return ProbeReport([RemoteJudgements.unreachable("issuer", "\(trust.name) at \(url)", reason(error))])
        }
    }

    /// Fetches a file as its reader does, which follows no redirect.
    private static func appFile(_ file: AppFile) -> ProbeReport {
        do {
            let answer = try ProbeTransfer.get(file.url, source: file.url)
            return ProbeReport([file.judgement(answer.status, contentType: answer.contentType, answer.body)])
        } catch {
            return ProbeReport([.fail(file.subject, "cannot be fetched (\(reason(error))): let that host answer it by this gateway")])
        }
    }

    // MARK: database and mail

    private static func database(_ name: String, _ location: StoreLocation, _ secret: [UInt8]?, sharesKeys: Bool) -> ProbeReport {
        let start = EventLoop.now()
        do throws(StoreInspection.Fault) {
            let facts = try StoreInspection(of: location)
            var findings = RemoteJudgements.database(name, facts)
            if sharesKeys { findings.append(RemoteJudgements.keySecret(facts.sealed, secret)) }
            let clock = facts.clock.map {
                ClockReading(
                    source: "the database", theirs: Double($0.microseconds) / 1_000_000, resolution: 0, from: start, to: EventLoop.now())
            }
            if let clock { findings.append(RemoteJudgements.databaseClock(clock)) }
            return ProbeReport(findings, clocks: [clock].compactMap(\.self))
        } catch {
            return ProbeReport([RemoteJudgements.closed("database", name, error.reason, setting: name)])
        }
    }

    private static func mail(_ server: MailServer) -> ProbeReport {
        let name = server.hostAndPort
        do throws(SystemFault) {
            try Reachability.check(try Resolver.resolve(host: server.host, port: server.port), milliseconds: milliseconds)
            return ProbeReport([RemoteJudgements.mailServer(name, server.logIn())])
        } catch {
            return ProbeReport([RemoteJudgements.unreachable("mail server", name, error.description)])
        }
    }

    private static func reason(_ error: any Error) -> String { (error as? ProbeTransfer.Fault)?.reason ?? "\(error)" }
}

extension UpstreamBase {
    fileprivate var isService: Bool {
        if case .service = endpoint { true } else { false }
    }
}

/// The probes of Redis: one server, the nodes of a cluster, or sentinels and their primary.
enum RedisProbes {
    private static let milliseconds: UInt64 = 3_000

    static func all(_ endpoint: RedisEndpoint) -> [ProbeRun.Probe] {
        switch endpoint.topology {
        case .single(let address): [.init(name: "redis \(address)") { server(endpoint, address, isNode: false) }]
        case .cluster(let nodes):
            nodes.map { node in .init(name: "redis \(node)") { server(endpoint.server(at: node), node, isNode: true) } }
        case .sentinel(let sentinels, let master): [.init(name: "sentinels of \(master)") { watch(endpoint, sentinels, master) }]
        }
    }

    /// The commands of the rule in docs/several-gateways.md, with arguments that change nothing: keys that no gateway uses are read
    /// or deleted, writes demand that the key exists, scripts are none, and messages go to a channel without subscribers. A server
    /// checks rights before arguments, so any other answer than NOPERM shows the right. INCR has no such argument and is not tried.
    private static let rights: [(right: String, words: [String])] = [
        ("ping", ["PING"]), ("time", ["TIME"]), ("get", ["GET", key]), ("set", ["SET", key, "", "XX"]), ("del", ["DEL", key]),
        ("hmget", ["HMGET", key, "f"]), ("hset", ["HSET", key, "f", "v", "odd"]), ("pexpire", ["PEXPIRE", key, "1"]),
        ("zadd", ["ZADD", key, "XX", "0", "m"]), ("zremrangebyscore", ["ZREMRANGEBYSCORE", key, "0", "0"]), ("zcard", ["ZCARD", key]),
        ("script|load", ["SCRIPT", "LOAD", "no Lua"]), ("evalsha", ["EVALSHA", String(repeating: "0", count: 40), "0"]),
        ("publish", ["PUBLISH", key, ""]), ("subscribe", ["SUBSCRIBE", "tollgate:changes"]),
    ]
    private static let key = "tollgate:doctor"
    private static let nodeRights: [(right: String, words: [String])] = [("cluster|slots", ["CLUSTER", "SLOTS"]), ("asking", ["ASKING"])]

    private static func server(_ endpoint: RedisEndpoint, _ address: RedisEndpoint.Address, isNode: Bool) -> ProbeReport {
        // SUBSCRIBE is the last of all: a subscribed connection takes no other.
        let tried = (isNode ? nodeRights : []) + rights
        let looks = [["TIME"], ["INFO", "server"], ["INFO", "memory"], ["ROLE"]] + (isNode ? [["CLUSTER", "INFO"]] : [])
        let start = EventLoop.now()
        do throws(RedisInquiry.Fault) {
            let answers = try ask(endpoint, address, looks + tried.map(\.words))
            var facts = RemoteJudgements.Redis()
            facts.version = field("redis_version", answers[1])
            facts.policy = field("maxmemory_policy", answers[2])
            facts.maxMemory = field("maxmemory", answers[2]).flatMap { Int($0) }
            if case .values(let values) = answers[3], !isNode { facts.role = values.first }
            // Any server answers this at once; a user without the right to it still talks to a Redis.
            facts.fault = isDenied("time", answers[0]) ? nil : answers[0].fault
            if isNode {
                facts.clusterFault = isDenied("cluster|info", answers[4]) ? nil : answers[4].fault
                facts.clusterState = field("cluster_state", answers[4])
                facts.clusterSlots = field("cluster_slots_assigned", answers[4]).flatMap { Int($0) }
            }
            facts.missingRights = zip(tried, answers.dropFirst(looks.count)).compactMap { isDenied($0.right, $1) ? "+\($0.right)" : nil }
            return ProbeReport(RemoteJudgements.redis(address.description, facts), clocks: clock(answers[0], start).map { [$0] } ?? [])
        } catch {
            let finding =
                error.speaksNoTLS
                ? RemoteJudgements.redisWithoutTLS(address.description)
                : RemoteJudgements.closed("redis", address.description, error.reason, setting: Setting.redisURL.name)
            return ProbeReport([finding])
        }
    }

    private static func watch(_ endpoint: RedisEndpoint, _ sentinels: [RedisEndpoint.Address], _ master: String) -> ProbeReport {
        var answers: [(address: String, primary: Result<String, RedisInquiry.Fault>)] = []
        var primary: RedisEndpoint.Address?
        for sentinel in sentinels {
            do throws(RedisInquiry.Fault) {
                let answer = try ask(endpoint.sentinel(at: sentinel), sentinel, [["SENTINEL", "get-master-addr-by-name", master]])[0]
                guard case .values(let parts) = answer, parts.count == 2, let port = UInt16(parts[1]) else {
                    throw RedisInquiry.Fault(reason: answer.fault ?? "it knows none")
                }
                let named = RedisEndpoint.Address.host(parts[0], port: port)
                primary = named
                answers.append((sentinel.description, .success(named.description)))
            } catch {
                answers.append((sentinel.description, .failure(error)))
            }
        }
        let report = primary.map { server(endpoint.server(at: $0), $0, isNode: false) } ?? ProbeReport()
        return ProbeReport(RemoteJudgements.sentinels(master, answers) + report.findings, clocks: report.clocks)
    }

    private static func ask(
        _ endpoint: RedisEndpoint, _ address: RedisEndpoint.Address, _ commands: [[String]]
    ) throws(RedisInquiry.Fault) -> [RedisInquiry.Answer] {
        let addresses: [SocketAddress]
        do throws(SystemFault) {
            switch address {
            case .unix(let path): addresses = [.unix(path)]
            case .host(let host, let port): addresses = try Resolver.resolve(host: host, port: port)
            }
        } catch {
            throw RedisInquiry.Fault(reason: error.description)
        }
        return try RedisInquiry.ask(endpoint, addresses: addresses, commands, milliseconds: milliseconds)
    }

    private static func isDenied(_ right: String, _ answer: RedisInquiry.Answer) -> Bool {
        guard let fault = answer.fault, fault.hasPrefix("NOPERM") else { return false }
        // Its channel is none of the gateways', and denied only to those who may publish.
        return right != "publish" || !fault.contains("channel")
    }

    /// The line of `INFO` for `name`.
    private static func field(_ name: String, _ answer: RedisInquiry.Answer) -> String? {
        guard case .values(let texts) = answer, let text = texts.first else { return nil }
        for line in text.split(whereSeparator: \.isNewline) where line.hasPrefix(name + ":") {
            return String(line.dropFirst(name.count + 1))
        }
        return nil
    }

    private static func clock(_ answer: RedisInquiry.Answer, _ start: Moment) -> ClockReading? {
        guard case .values(let parts) = answer, parts.count == 2, let seconds = Double(parts[0]), let micros = Double(parts[1]) else {
            return nil
        }
        return ClockReading(source: "Redis", theirs: seconds + micros / 1_000_000, resolution: 0, from: start, to: EventLoop.now())
    }
}

extension RedisInquiry.Answer {
    /// The server's error; nil for a reply.
    fileprivate var fault: String? {
        switch self {
        case .values: nil
        case .error(let text): text
        case .none: "it did not answer"
        }
    }
}
