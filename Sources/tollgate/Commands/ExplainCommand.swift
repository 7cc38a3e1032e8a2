internal import Admin
internal import Credentials
internal import Gate
internal import HTTP
internal import Issuers
internal import Settings
internal import Wire

/// `tollgate explain`: the steps and the verdict for one request, computed by the same `Admission` as in the gateway.
enum ExplainCommand {
    /// The request from the command line.
    struct Request {
        let head: [UInt8]
        let peer: Peer
        /// As given, for the output.
        let method: String
        let url: String

        init(_ arguments: Arguments) throws(UsageFault) {
            method = arguments.operands[0]
            url = arguments.operands[1]
            let target = try Self.target(url)
            var lines = ["\(method) \(target.path) HTTP/1.1", "Host: \(target.host)"]
            if let token = arguments.value("token") { lines.append("Authorization: Bearer \(token)") }
            for header in arguments.values("header") {
                guard header.contains(":") else { throw Self.fault("--header \(quoted(header)) has no colon, write \"NAME: VALUE\"") }
                lines.append(header)
            }
            guard lines.allSatisfy({ !$0.utf8.contains { $0 == 10 || $0 == 13 } }) else {
                throw Self.fault("a line break is part of no request, remove it")
            }
            head = Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)
            peer = Peer(address: try Self.address(arguments.value("from")), isTLS: target.isTLS)
        }

        private static func address(_ text: String?) throws(UsageFault) -> IPAddress {
            let text = text ?? "127.0.0.1"
            guard let address = IPAddress(parsing: text) else {
                throw fault("--from \(quoted(text)) is no address, write one like 192.0.2.1 or 2001:db8::1")
            }
            return address
        }

        private static func target(_ url: String) throws(UsageFault) -> (host: String, path: String, isTLS: Bool) {
            if url.hasPrefix("/") { return ("localhost", url, false) }
            let isTLS = url.hasPrefix("https://")
            guard isTLS || url.hasPrefix("http://") else {
                throw fault("\(quoted(url)) is no URL, write one like http://localhost:8000/path, or /path alone")
            }
            let rest = url.dropFirst(isTLS ? 8 : 7)
            let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
            let path = rest[end...]
            return (String(rest[..<end]), path.hasPrefix("/") ? String(path) : "/" + path, isTLS)
        }

        private static func fault(_ message: String) -> UsageFault { UsageFault(message: message, command: .explain) }
    }

    static func run(_ request: Request, _ configuration: GatewayConfiguration, json: Bool, at now: Moment) -> CommandResult {
        do {
            let keys = try CurrentKeys.gather(IssuersPlan(configuration), at: now)
            let policy = try PolicyBuilder.policy(configuration, keys: keys, version: 1, now: now.wall)
            let walk = Walk(request, configuration, policy, at: now)
            return json ? walk.report(request) : CommandResult(output: walk.text)
        } catch let fault as KeyStoreFault {
            return .failed(fault.description)
        } catch {
            return .failed("the routes cannot be served: \(error)")
        }
    }

    /// A decided request.
    private struct Walk {
        private let explanation: Explanation
        /// The explanation's steps, with those of the account and of the headers before the verdict.
        private var steps: [Explanation.Step]

        init(_ request: Request, _ configuration: GatewayConfiguration, _ policy: Policy, at now: Moment) {
            var head = RequestHead()
            var note = DecisionRecord()
            var found: [Explanation.Step] = []
            switch head.parse(request.head.rawBytes, limits: HeadLimits()) {
            case .invalid(let fault): note.recordUnparsed(fault, from: request.peer.address, policy)
            case .incomplete: note.recordUnparsed(HTTPFault(.truncated), from: request.peer.address, policy)
            case .complete:
                var admission = Admission(policy: policy, limiter: SharedLimiter(capacity: 8), cacheCapacity: 1)
                var decision = Decision()
                admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, &decision)
                if decision.verdict == .lookUp, admission.asksSubject(decision) {
                    let diagnosis = SubjectDiagnosis.find(admission.tokenUser(decision), configuration, at: now)
                    found = [Explanation.Step("account", diagnosis.account)]
                    admission.learn([diagnosis.known])
                    admission.revoke(diagnosis.revoked, at: now.wall.seconds)
                    admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, &decision)
                }
                if decision.verdict == .lookUp {
                    let diagnosis = AccountDiagnosis.find(
                        admission.tokenUser(decision), session: decision.sessionID.text, configuration, at: now)
                    found += diagnosis.steps
                    admission.learn([diagnosis.status])
                    admission.revoke(diagnosis.revoked, at: now.wall.seconds)
                    admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, &decision)
                }
                note.record(decision, head, request.head.rawBytes, policyVersion: policy.version, at: now.wall)
                if decision.refusal == nil, case .forward = decision.verdict {
                    found.append(Explanation.Step("bearer", Self.bearer(policy.rules[decision.routeIndex])))
                }
                if decision.refusal == nil, case .forward(let index) = decision.verdict {
                    let upstream = configuration.settings.upstreams[index].name
                    found += AddressDiagnosis.find(upstream: upstream, configuration).map { Explanation.Step("address", $0) }
                }
                if decision.refusal == nil, !decision.requestEdits.addsNothing {
                    found.append(Explanation.Step("headers", Self.headers(decision)))
                }
            }
            explanation = Explanation(note, policy: policy)
            steps = explanation.steps
            let verdict = steps.removeLast()
            steps += found
            steps.append(Explanation.Step(verdict.name, Self.verdict(note, configuration) ?? verdict.text))
        }

        /// The fate of `Authorization` before the upstream.
        private static func bearer(_ rule: RouteRule) -> String {
            if rule.auth == .none { return "Authorization passes to the upstream as it came: auth=none does not look at it" }
            if rule.forwardsAuthorization { return "Authorization passes to the upstream: forward=authorization" }
            return "Authorization is removed before the upstream; forward=authorization on the route keeps it"
        }

        private static func headers(_ decision: borrowing Decision) -> String {
            decision.requestEdits.http1.text.split(separator: "\r\n").joined(separator: ", ")
        }

        private static func verdict(_ note: borrowing DecisionRecord, _ configuration: GatewayConfiguration) -> String? {
            guard case .forward(let index) = note.verdict else { return nil }
            let upstream = configuration.settings.upstreams[index]
            return "passes, to the upstream \(upstream.name) (\(upstream.bases.map(\.text).joined(separator: " ")))"
        }

        var text: String { CheckTable.table(["STEP", "WHAT"], steps.map { [$0.name, $0.text] }) }

        func report(_ request: Request) -> CommandResult {
            .json { json in
                json.beginObject()
                json.field("method", request.method)
                json.field("url", request.url)
                explanation.write(steps, &json)
                json.endObject()
            }
        }
    }
}

extension AccountDiagnosis {
    fileprivate var steps: [Explanation.Step] {
        [Explanation.Step("account", account)] + (session.map { [Explanation.Step("session", $0)] } ?? [])
    }
}
