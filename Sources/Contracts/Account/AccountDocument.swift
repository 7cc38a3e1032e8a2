import Accounts
import Credentials
import Gate
import HTTP
import Wire

// An account as the endpoints of `TOLLGATE_ACCOUNT` show it. What is not there is `null`.

extension ContractServices {
    func write(_ account: Account, _ identities: [LinkedIdentity], _ json: inout JSONWriter) {
        json.beginObject()
        writeMembers(of: account, &json)
        json.array("identities", identities) { json, identity in identity.write(to: &json) }
        json.key("attributes")
        json.verbatim(account.attributes.json.rawBytes)
        json.field("guest", GuestRule.isGuest(account, hasIdentities: !identities.isEmpty))
        json.endObject()
    }

    private func writeMembers(of account: Account, _ json: inout JSONWriter) {
        json.field("id", account.id.text)
        json.write("email", account.email?.text)
        json.field("email_verified", account.email != nil && account.emailConfirmedAt != nil)
        json.write("phone", account.phone?.text)
        json.write("username", account.username?.text)
        json.write("name", account.name?.full)
        json.write("created_at", account.createdAt)
        let tier = tier(of: account)
        json.field("tier", tiers.name(of: tier))
        json.write("tier_until", tier > .lowest ? grant(of: account)?.until : nil)
        json.array("grants", account.entitlement.grants) { json, grant in
            json.beginObject()
            json.field("source", grant.source)
            json.field("tier", grant.tier)
            json.write("until", grant.until)
            json.endObject()
        }
    }

    /// The export: all that is kept, without tokens and hashes.
    func write(_ kept: KeptAccount, _ json: inout JSONWriter) {
        let account = kept.account
        json.beginObject()
        json.write("exported_at", clock.now().wall)
        json.key("account")
        json.beginObject()
        writeMembers(of: account, &json)
        json.write("opened_by", account.openedBy?.name)
        json.write("updated_at", account.updatedAt)
        json.write("email_verified_at", account.emailConfirmedAt)
        json.write("phone_verified_at", account.phoneConfirmedAt)
        json.write("given_name", account.name?.given)
        json.write("family_name", account.name?.family)
        json.field("password", account.hasPassword)
        json.write("language", account.language)
        json.write("mail_stopped_at", account.mailStoppedAt)
        json.write("banned_at", account.ban?.bannedAt)
        json.write("banned_until", account.ban?.until)
        json.write("erased_at", account.erasedAt)
        json.key("attributes")
        json.verbatim(account.attributes.json.rawBytes)
        json.key("metadata")
        json.verbatim(account.metadata.json.rawBytes)
        json.array("merged_from", account.merges) { json, merge in json.string(merge.from.text) }
        json.endObject()
        json.array("identities", kept.identities) { json, identity in identity.write(to: &json) }
        json.array("passkeys", kept.passkeys) { json, passkey in passkey.write(&json) }
        json.array("sessions", kept.sessions) { json, session in session.write(&json) }
        json.array("devices", kept.devices) { json, device in
            json.beginObject()
            json.field("device", device.label)
            json.write("first_seen_at", device.firstSeenAt)
            json.write("last_seen_at", device.lastSeenAt)
            json.endObject()
        }
        json.array("purchases", kept.purchases) { json, purchase in purchase.write(to: &json) }
        json.array("actors", kept.actors) { json, actor in
            json.beginObject()
            json.field("type", actor.type)
            json.field("id", actor.id)
            json.endObject()
        }
        json.array("factors", kept.factor.map { [$0] } ?? []) { json, factor in factor.write(to: &json) }
        json.array("events", kept.events) { json, event in event.write(to: &json) }
        json.endObject()
    }
}

extension Session {
    /// As lists show it; `isCurrent`: whether it is the caller's, nil where that is not said.
    func write(isCurrent: Bool? = nil, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("id", id.text)
        if let isCurrent { json.field("current", isCurrent) }
        json.field("contract", contract.name)
        json.write("device", deviceLabel)
        if isCurrent == nil { json.write("user_agent", device) }
        json.write("address", address?.text)
        json.field("device_key", deviceKey != nil)
        json.write("created_at", createdAt)
        json.write("last_used_at", usedAt)
        json.endObject()
    }
}

extension KeptFactor {
    /// It is not there before its first code.
    func write(to json: inout JSONWriter) {
        json.beginObject()
        json.field("type", "totp" as StaticString)
        json.write("created_at", confirmedAt)
        json.endObject()
    }
}

extension LinkedIdentity {
    fileprivate func write(to json: inout JSONWriter) {
        json.beginObject()
        json.field("provider", key.source.name)
        json.field("subject", key.subject)
        json.write("linked_at", linkedAt)
        json.endObject()
    }
}

extension AuditEvent {
    /// The operator is not named further.
    fileprivate func write(to json: inout JSONWriter) {
        json.beginObject()
        json.field("id", id.text)
        json.field("kind", kind.rawValue)
        json.write("at", at)
        json.field("actor", actor.kind)
        json.write("session", session?.text)
        json.write("address", address?.text)
        json.write("detail", detail)
        json.endObject()
    }
}

extension JSONWriter {
    /// A time, or `null` for none.
    mutating func write(_ name: StaticString, _ time: WallTime?) { write(name, time.map { ISO8601.text($0) }) }

    /// A text, or `null` for none.
    mutating func write(_ name: StaticString, _ text: String?) {
        key(name)
        if let text { string(text) } else { null() }
    }
}

extension LocalResponse {
    /// 204.
    static let done = LocalResponse(status: 204, contentType: "application/json; charset=utf-8", body: [])
}
