internal import Credentials
internal import Issuers
internal import Settings
internal import Wire

/// `tollgate keys`: the gateway's own signing keys.
enum KeysCommand {
    static func list(_ configuration: GatewayConfiguration, json: Bool, now: WallTime) throws(KeyStoreFault) -> CommandResult {
        let ring = try KeyStore.peek(IssuersPlan(configuration), now: now)
        return json ? report(ring?.entries ?? []) : describe(ring?.entries ?? [], configuration)
    }

    static func rotate(_ configuration: GatewayConfiguration, json: Bool, now: WallTime) throws(KeyStoreFault) -> CommandResult {
        if configuration.settings.jwtSecret != nil {
            return .failed("own tokens are signed with TOLLGATE_JWT_SECRET, change the secret to rotate it", exitCode: 2)
        }
        let ring = try rotated(configuration, now: now)
        return json ? report(ring.entries) : describe(ring.entries, configuration)
    }

    private static func rotated(_ configuration: GatewayConfiguration, now: WallTime) throws(KeyStoreFault) -> SigningKeyRing {
        let announcement = ChangeAnnouncement()
        // Announced after each write: a new next key must reach the gateways before it signs.
        return try KeyStore.rotate(IssuersPlan(configuration), clockSkewSeconds: configuration.settings.clockSkewSeconds, now: now) { _ in
            announcement.record()
            announcement.publish(configuration)
        }
    }

    static func jwks(_ configuration: GatewayConfiguration, json _: Bool, now: WallTime) throws(KeyStoreFault) -> CommandResult {
        let ring = try KeyStore.open(IssuersPlan(configuration), now: now)
        return CommandResult(output: ring.jwks(now: now).rawBytes.text + "\n")
    }

    private static func describe(_ entries: [SigningKeyRing.Entry], _ configuration: GatewayConfiguration) -> CommandResult {
        guard !entries.isEmpty else {
            return CommandResult(output: "There are no keys yet: they are generated when the gateway first starts.\n")
        }
        let rows = entries.map { entry in
            let created = configuration.settings.jwtSecret == nil ? ISO8601.text(WallTime(seconds: entry.createdAt)) : ""
            return [entry.key.kid ?? "(shared secret)", entry.key.algorithm.name, state(entry), created, until(entry) ?? ""]
        }
        return CommandResult(output: CheckTable.table(["KID", "ALGORITHM", "STATE", "CREATED", "UNTIL"], rows))
    }

    private static func report(_ entries: [SigningKeyRing.Entry]) -> CommandResult {
        .json { json in
            json.beginArray()
            for entry in entries {
                json.beginObject()
                json.optional("kid", entry.key.kid)
                json.field("algorithm", entry.key.algorithm.name)
                json.field("state", state(entry))
                json.field("created_at", ISO8601.text(WallTime(seconds: entry.createdAt)))
                json.optional("until", until(entry))
                json.endObject()
            }
            json.endArray()
        }
    }

    private static func state(_ entry: SigningKeyRing.Entry) -> String {
        switch entry.state {
        case .active: "active"
        case .next: "next"
        case .retired: "retired"
        }
    }

    private static func until(_ entry: SigningKeyRing.Entry) -> String? {
        guard case .retired(let until) = entry.state else { return nil }
        return ISO8601.text(WallTime(seconds: until))
    }
}
