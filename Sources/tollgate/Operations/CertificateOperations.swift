internal import Accounts
internal import Acme
internal import Admin
internal import Credentials
internal import HTTP
internal import Settings
internal import Wire

extension AdminOperation {
    /// The certificates that an authority issues.
    static func certificates(_ gateway: some OperatedGateway) -> [AdminOperation] {
        [
            AdminOperation(
                "GET", "certificates", "listCertificates", "The certificates that an authority issues (TOLLGATE_ACME), by their names",
                access: .scope(.gatewayRead), answers: .list("certificates")
            ) { _, _ in gateway.certificates },
            AdminOperation(
                "POST", "certificates/{name}/renew", "renewCertificate",
                "Orders a certificate at once, whether one is due or not; like tollgate certificates renew", access: .operator,
                answers: ShownCertificate.shape, refusals: [404, 409]
            ) { _, call in
                guard let shown = gateway.certificates.first(where: { $0.name == call.arguments[0] }) else {
                    throw AdminRefusal(404, "NOT_FOUND", "No certificate of this name is ordered here")
                }
                if let reason = shown.refusal(at: gateway.time) { throw AdminRefusal(409, "CONFLICT", reason) }
                try await gateway.wish(for: shown.name)
                return shown
            },
        ]
    }
}

/// A name's certificate, as the admin API and `tollgate certificates` show it.
struct ShownCertificate: Recorded {
    let name: String
    let certificate: IssuedCertificate?
    let state: RenewalState
    let dueAt: WallTime
    let isWanted: Bool
    let now: WallTime

    /// Those of a configuration; none without an authority.
    static func all(_ settings: Configuration, _ board: AcmeBoard, at now: WallTime) -> [ShownCertificate] {
        guard let directory = settings.acmeDirectory else { return [] }
        return settings.certificateNames.map { name in
            ShownCertificate(
                name: name, certificate: board.certificate(name)?.certificate, state: board.state(name, at: now),
                dueAt: max(board.dueAt(name, directory: directory, at: now), now), isWanted: board.text(.wish(name), at: now) != nil,
                now: now)
        }
    }

    static let record = Record<Self>(
        "Certificate",
        [
            .has("name", \.name), .has("status", .words(["valid", "late", "expired", "missing"]), \.status),
            .may("serial", \.certificate?.serial), .may("not_before", \.certificate?.startsAt), .may("not_after", \.certificate?.expiresAt),
            .has("next_order_at", \.dueAt), .has("failures", about: "Orders that failed in a row", \.state.failures),
            .may("problem", about: "Why the last order failed", \.state.problem),
        ])

    var status: String {
        guard let certificate else { return "missing" }
        return certificate.expiresAt <= now ? "expired" : RenewalState.lateAt(certificate) <= now ? "late" : "valid"
    }

    /// Why no order by hand is begun; nil if one may be. The authority's own limits would refuse it.
    func refusal(at now: WallTime) -> String? {
        guard state.cause == AcmeFailure.Cause.rateLimit.rawValue, let until = state.notBefore, until > now else { return nil }
        return "The authority takes no order before \(ISO8601.text(until)): \(state.problem ?? "")"
    }
}
