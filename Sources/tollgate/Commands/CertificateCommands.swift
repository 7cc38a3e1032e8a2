internal import Accounts
internal import Acme
internal import Admin
internal import Credentials
internal import Issuers
internal import Settings
internal import Wire

extension Command {
    /// The certificates that an authority issues.
    static let certificates = [
        Command.configured("certificates list", "lists the certificates that an authority issues (TOLLGATE_ACME), and when each is renewed")
        {
            call in
            { configuration in
                CertificateCommands.result(configuration, call) { shown in
                    call.answer(shown) {
                        guard !shown.isEmpty else { return "No certificates are ordered: set TOLLGATE_ACME.\n" }
                        let rows = shown.map { one in
                            [
                                one.name, one.status, one.certificate.map { ISO8601.text($0.expiresAt) } ?? "",
                                one.isWanted ? "now" : ISO8601.text(one.dueAt), one.state.problem ?? "",
                            ]
                        }
                        return CheckTable.table(["NAME", "STATUS", "UNTIL", "NEXT ORDER", "LAST FAILURE"], rows)
                    }
                }
            }
        },
        Command.configured("certificates renew NAME", "orders a certificate at once, whether one is due or not; a running gateway does it")
        {
            call in
            let name = call.operands[0].lowercased()
            return { configuration in
                CertificateCommands.result(configuration, call) { shown in
                    guard let one = shown.first(where: { $0.name == name }) else {
                        let known = shown.isEmpty ? "TOLLGATE_ACME is not set" : "there are \(shown.map(\.name).joined(separator: ", "))"
                        return .failed("no certificate is ordered for \(quoted(name)), \(known)", exitCode: 2)
                    }
                    if let reason = one.refusal(at: call.now.wall) { return .failed(reason) }
                    return CertificateCommands.wish(for: one, configuration, call)
                }
            }
        },
    ]
}

private enum CertificateCommands {
    /// Of the certificates as the database has them.
    static func result(
        _ configuration: GatewayConfiguration, _ call: CommandCall, _ body: ([ShownCertificate]) -> CommandResult
    ) -> CommandResult {
        guard configuration.settings.acmeDirectory != nil else { return body([]) }
        do throws(KeyStoreFault) {
            let secret = try RefreshSecret.open(IssuersPlan(configuration))
            do throws(AccountCommandFault) {
                let switches = try OfflineAccounts.ask(configuration, at: call.now) { try await $0.switches() }
                return body(ShownCertificate.all(configuration.settings, AcmeBoard(switches, secret: secret), at: call.now.wall))
            } catch {
                return .failed(error.message, exitCode: error.exitCode)
            }
        } catch {
            return .failed(error.description)
        }
    }

    /// Tells the gateways.
    static func wish(for one: ShownCertificate, _ configuration: GatewayConfiguration, _ call: CommandCall) -> CommandResult {
        do throws(AccountCommandFault) {
            let isServed = try OfflineAccounts.ask(configuration, at: call.now) { accounts in
                try await accounts.set(AcmeBoard.Subject.wish(one.name).name, to: ISO8601.text(call.now.wall))
                return try await accounts.hasGateway()
            }
            var result = call.answer(one) {
                isServed ? "A gateway orders it now; `tollgate certificates list` shows how that ends.\n" : "It is noted.\n"
            }
            if !isServed { result.errorOutput += "note: no gateway of this database runs; the first that does orders it\n" }
            return result
        } catch {
            return .failed(error.message, exitCode: error.exitCode)
        }
    }
}
