internal import Admin
internal import Gate
internal import HTTP
internal import Limits
internal import Settings
internal import Wire

/// A request's walk through the policy, with what the accounts and the upstream's addresses add to it. Blocks while it asks them; for
/// an own thread.
struct ExplainedWalk {
    let explanation: Explanation
    /// The name of the route; nil if none matched.
    private(set) var route: String?
    /// The explanation's steps, with those of the account and of the headers before the verdict.
    private(set) var steps: [Explanation.Step]

    /// `addresses` tells which addresses of an upstream get no requests now, and why.
    init(
        _ request: ExplainCommand.Request, _ configuration: GatewayConfiguration, _ policy: Policy, at now: Moment,
        addresses: (String) -> [String]
    ) {
        var head = RequestHead()
        var note = DecisionRecord()
        var found: [Explanation.Step] = []
        switch head.parse(request.head.rawBytes, limits: HeadLimits()) {
        case .invalid(let fault): note.recordUnparsed(fault, from: request.peer.address, policy)
        case .incomplete: note.recordUnparsed(HTTPFault(.truncated), from: request.peer.address, policy)
        case .complete:
            let limiter = SharedLimiter(capacity: 8)
            var admission = Admission(policy: policy, limiter: limiter, cacheCapacity: 1)
            var decision = Decision()
            if let (listener, port) = configuration.settings.redirect(at: request.plainPort) {
                admission.redirect(head, request.head.rawBytes, peer: request.peer, port: port, &decision)
                note.record(decision, head, request.head.rawBytes, policyVersion: policy.version, at: now.wall)
                found = [Explanation.Step("redirect", "\(listener) leads each request to HTTPS at port \(port), whatever its route")]
                break
            }
            admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, limiter: limiter, &decision)
            if decision.verdict == .lookUp, admission.asksSubject(decision) {
                let diagnosis = SubjectDiagnosis.find(admission.tokenUser(decision), configuration, at: now)
                found = [Explanation.Step("account", diagnosis.account)]
                admission.learn([diagnosis.known])
                admission.revoke(diagnosis.revoked, at: now.wall.seconds)
                admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, limiter: limiter, &decision)
            }
            if decision.verdict == .lookUp {
                let diagnosis = AccountDiagnosis.find(
                    admission.tokenUser(decision), session: decision.sessionID.text, configuration, at: now)
                found += diagnosis.steps
                admission.learn([diagnosis.status])
                admission.learn(diagnosis.proven, at: now.wall.seconds)
                admission.revoke(diagnosis.revoked, at: now.wall.seconds)
                admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, limiter: limiter, &decision)
            }
            if decision.refusal != nil, decision.authReason == .accountsUnavailable {
                // Of all refusals only an API key's comes without a look-up: none was read.
                do throws(AccountCommandFault) {
                    admission.adopt(try AccountDiagnosis.apiKeys(configuration, at: now))
                    admission.decide(head, request.head.rawBytes, peer: request.peer, at: now, limiter: limiter, &decision)
                    found.append(Explanation.Step("key", "as the store has it now"))
                } catch {
                    found.append(Explanation.Step("key", "the keys cannot be read: \(error.message)"))
                }
            }
            let requestID: StaticString = "(request-id)"
            if decision.changesFields { admission.changeFields(requestID: requestID.rawBytes, &decision) }
            note.record(decision, head, request.head.rawBytes, policyVersion: policy.version, at: now.wall)
            if decision.refusal == nil, case .forward = decision.verdict {
                found.append(Explanation.Step("bearer", Self.bearer(policy.rules[decision.routeIndex])))
            }
            if decision.refusal == nil, case .forward(let index) = decision.verdict {
                let upstream = configuration.settings.upstreams[index].name
                found += addresses(upstream).map { Explanation.Step("address", $0) }
            }
            if decision.refusal == nil, !decision.requestEdits.addsNothing {
                found.append(Explanation.Step("headers", Self.headers(decision)))
            }
        }
        explanation = Explanation(note, policy: policy)
        route = note.route(policy)
        steps = explanation.steps
        let verdict = steps.removeLast()
        steps += found
        steps.append(Explanation.Step(verdict.name, Self.verdict(note, configuration) ?? verdict.text))
    }

    /// Adds a step before the verdict.
    mutating func add(_ step: Explanation.Step) { steps.insert(step, at: steps.count - 1) }

    /// The fate of `Authorization` before the upstream.
    private static func bearer(_ rule: RouteRule) -> String {
        if rule.auth == .none { return "Authorization passes to the upstream as it came: auth=none does not look at it" }
        if rule.forwardsAuthorization { return "Authorization passes to the upstream: forward=authorization" }
        return "Authorization is removed before the upstream; forward=authorization on the route keeps it"
    }

    /// The signed identity is left out: upstreams would believe it, and the walk is shown in the console and in tickets.
    private static func headers(_ decision: borrowing Decision) -> String {
        let signed = "X-Tollgate-Identity: "
        return decision.requestEdits.http1.text.split(separator: "\r\n").map { $0.hasPrefix(signed) ? signed + "(signed)" : String($0) }
            .joined(separator: ", ")
    }

    private static func verdict(_ note: borrowing DecisionRecord, _ configuration: GatewayConfiguration) -> String? {
        guard case .forward(let index) = note.verdict else { return nil }
        let upstream = configuration.settings.upstreams[index]
        return "passes, to the upstream \(upstream.name) (\(upstream.bases.map(\.text).joined(separator: " ")))"
    }

    var text: String { CheckTable.table(["STEP", "WHAT"], steps.map { [$0.name, $0.text] }) }

    func shown(_ request: ExplainCommand.Request) -> ShownWalk {
        ShownWalk(method: request.method, url: request.url, route: route, steps: steps, explanation)
    }
}

extension Configuration {
    /// The plain address at this port, if it leads requests to HTTPS, and the port there.
    fileprivate func redirect(at port: UInt16?) -> (listener: String, port: UInt16)? {
        let found = listeners.first { $0.address.port == port && $0.redirectPort != nil }
        guard port != nil, let found, let chosen = found.redirectPort else { return nil }
        let secure = chosen == 0 ? tlsListeners.lazy.compactMap(\.address.port).first : chosen
        return secure.map { (found.text, $0) }
    }
}

extension AccountDiagnosis {
    fileprivate var steps: [Explanation.Step] {
        [Explanation.Step("account", account)] + (session.map { [Explanation.Step("session", $0)] } ?? [])
    }
}
