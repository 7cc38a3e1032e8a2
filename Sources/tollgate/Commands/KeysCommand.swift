internal import Admin
internal import Credentials
internal import Issuers
internal import Settings
internal import Wire

extension Command {
    /// The gateway's own signing keys.
    static let keys = [
        Command.configured("keys list", "lists the signing keys") { call in
            { configuration in
                KeysCommand.result { () throws(KeyStoreFault) in
                    let ring = try KeyStore.peek(IssuersPlan(configuration), now: call.now.wall)
                    return KeysCommand.answer(ring?.entries ?? [], call, configuration)
                }
            }
        },
        Command.configured("keys rotate", "rotates the signing keys; the old one verifies until its last token expires") { call in
            { configuration in
                if configuration.settings.jwtSecret != nil {
                    return .failed("own tokens are signed with TOLLGATE_JWT_SECRET, change the secret to rotate it", exitCode: 2)
                }
                return KeysCommand.result { () throws(KeyStoreFault) in
                    KeysCommand.answer(try KeysCommand.rotated(configuration, now: call.now.wall).entries, call, configuration)
                }
            }
        },
        Command.configured("keys jwks", "prints the public keys as a JWK Set") { call in
            { configuration in
                KeysCommand.result { () throws(KeyStoreFault) in
                    let ring = try KeyStore.open(IssuersPlan(configuration), now: call.now.wall)
                    return CommandResult(output: ring.jwks(now: call.now.wall).rawBytes.text + "\n")
                }
            }
        },
    ]
}

private enum KeysCommand {
    static func result(_ body: () throws(KeyStoreFault) -> CommandResult) -> CommandResult {
        do throws(KeyStoreFault) { return try body() } catch { return .failed(error.description) }
    }

    static func rotated(_ configuration: GatewayConfiguration, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        let announcement = ChangeAnnouncement()
        // Announced after each write: a new next key must reach the gateways before it signs.
        return try KeyStore.rotate(IssuersPlan(configuration), clockSkewSeconds: configuration.settings.clockSkewSeconds, now: now) { _ in
            announcement.record()
            announcement.publish(configuration)
        }
    }

    static func answer(_ entries: [SigningKeyRing.Entry], _ call: CommandCall, _ configuration: GatewayConfiguration) -> CommandResult {
        call.answer(entries) {
            guard !entries.isEmpty else { return "There are no keys yet: they are generated when the gateway first starts.\n" }
            let rows = entries.map { entry in
                let created = configuration.settings.jwtSecret == nil ? ISO8601.text(WallTime(seconds: entry.createdAt)) : ""
                return [
                    entry.key.kid ?? "(shared secret)", entry.key.algorithm.name, state(entry), created, entry.end.map(ISO8601.text) ?? "",
                ]
            }
            return CheckTable.table(["KID", "ALGORITHM", "STATE", "CREATED", "UNTIL"], rows)
        }
    }

    private static func state(_ entry: SigningKeyRing.Entry) -> String {
        switch entry.state {
        case .active: "active"
        case .next: "next"
        case .retired: "retired"
        }
    }
}
