import Credentials
import HTTP
import Wire

/// The conditions of a route that are checked before the caller is: it is not past its sunset, not in maintenance, and the app is new enough
/// and attested.
final class EdgePlan: Sendable {
    let maintenance: [Maintenance]
    let sunset: WallTime?
    let app: AppMode
    let isAppShadowed: Bool
    let attestation: AttestationPlan?

    /// nil for a route without any of these.
    init?(_ rule: RouteRule, _ trust: Trust) {
        guard rule.hasEdge else { return nil }
        (maintenance, sunset, app) = (rule.maintenance, rule.sunset, rule.app)
        isAppShadowed = rule.shadow.contains(.app)
        attestation = AttestationPlan(rule, trust)
    }
}

extension RouteRule {
    /// Whether it has an `EdgePlan`.
    var hasEdge: Bool { !maintenance.isEmpty || sunset != nil || app != .off || attestation != nil }

    /// The changes of its answers, with those of its sunset, which take the place of the upstream's.
    var allAnswerFields: FieldChanges {
        var changes = answerFields
        if let deprecated { changes.set.append(FieldSetting("Deprecation", "@\(deprecated.seconds)")) }
        if let sunset {
            var date = ByteBuffer()
            HTTPDate.write(sunset, into: &date)
            changes.set.append(FieldSetting("Sunset", date.readable.text))
        }
        if let sunsetLink, deprecated != nil || sunset != nil {
            let relations = (deprecated == nil ? [] : ["deprecation"]) + (sunset == nil ? [] : ["sunset"])
            changes.added = relations.map { FieldSetting("Link", "<\(sunsetLink)>; rel=\"\($0)\"") }
        }
        return changes
    }

    /// The request fields that it asks for, which pages of other origins may send.
    func askedFields(_ gates: [VersionGate]) -> [String] {
        let app = app == .off ? [] : gates.flatMap { [$0.field] + [$0.platform?.field].compactMap(\.self) }
        return app + [attestation?.field].compactMap(\.self) + (auth.takesKeys ? ["\(Admission.keyField)"] : [])
    }

    /// The fields that pages of other origins may read beside those of its policy.
    var exposedFields: [String] {
        let dated = deprecated == nil && sunset == nil ? [] : ["Deprecation", "Sunset", "Link"]
        return dated + (app == .off ? [] : ["X-App-Update"])
    }
}

extension Admission {
    /// Whether the route takes requests of this client and this app now. Asked before the token: an app that is too old, or meets a closed
    /// service, may have none that is valid.
    mutating func isOpen(
        _ route: Int, _ gate: RouteGate, _ head: borrowing RequestHead, _ bytes: RawSpan, _ peer: Peer, _ now: WallTime,
        _ decision: inout Decision
    ) -> Bool {
        guard let plan = policy.plans[route].edge else { return true }
        if let sunset = plan.sunset, sunset <= now {
            decision.refuse(.gone)
            return false
        }
        if let closed = plan.maintenance.first(where: { $0.refuses(decision.client, at: now) }),
            InternalCaller.match(
                policy.internals, head, bytes, decision.client, peer.certificateNames, takesSecret: gate.target.isLocal) < 0
        {
            let number = plan.maintenance.firstIndex(of: closed) ?? 0
            decision.refuse(
                .maintenance(
                    route: Int32(truncatingIfNeeded: route), number: UInt8(truncatingIfNeeded: number),
                    retryAfterSeconds: closed.retryAfterSeconds(at: now)))
            return false
        }
        guard plan.app == .off || admitsApp(plan, head, bytes, &decision) else { return false }
        guard let attestation = plan.attestation else { return true }
        return isAttested(attestation, head, bytes, now, &decision)
    }
}

extension Policy {
    /// The message of a refusal that an operator wrote, or that names what they configured.
    package func message(of refusal: Refusal) -> String? {
        if case .appUpdateRequired(let gate, isVersionMissing: true) = refusal { return missingVersion(gate) }
        guard case .maintenance(let route, let number, _) = refusal, gates.indices.contains(Int(route)),
            let plan = plans[Int(route)].edge, plan.maintenance.indices.contains(Int(number))
        else { return nil }
        return plan.maintenance[Int(number)].message
    }

    /// The members of a refusal beside its code.
    package func extras(of refusal: Refusal) -> [Envelope.Extra] {
        if case .premiumRequired = refusal { return upgrade }
        guard case .appUpdateRequired(let gate, _) = refusal, let url = versionGate(gate)?.url else { return [] }
        return [Envelope.Extra(name: "url", value: url)]
    }

    /// The value of `Upgrade` in a 426.
    package func upgradeProtocol(of refusal: Refusal) -> String? {
        switch refusal {
        case .upgradeRequired: "websocket"
        case .appUpdateRequired(let gate, _): versionGate(gate)?.protocolText ?? "app"
        default: nil
        }
    }
}
