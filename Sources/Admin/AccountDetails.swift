package import Accounts
internal import Credentials
package import Wire

/// The identities, grants, sessions and metadata of an account.
package struct AccountDetails {
    package let identities: [LinkedIdentity]
    package let grants: [ActorName]
    package let sessions: [Session]
    private let metadata: Metadata

    package init(of account: Account, _ directory: AccountDirectory) async throws(AccountFailure) {
        identities = try await directory.identities(of: account.id)
        grants = try await directory.grants(of: account.id)
        sessions = try await directory.sessions(of: account.id)
        metadata = account.metadata
    }

    /// Writes them as members of an open object.
    package func write(_ json: inout JSONWriter) {
        json.array("identities", identities) { json, identity in
            json.beginObject()
            json.field("provider", identity.key.source.name)
            json.field("subject", identity.key.subject)
            json.field("linked_at", ISO8601.text(identity.linkedAt))
            json.endObject()
        }
        json.array("actors", grants) { json, actor in
            json.beginObject()
            json.field("type", actor.type)
            json.field("id", actor.id)
            json.endObject()
        }
        json.array("sessions", sessions) { json, session in
            json.beginObject()
            json.field("id", session.id.text)
            json.field("contract", session.contract.name)
            json.optional("device", session.device)
            json.optional("address", session.address?.text)
            json.field("created_at", ISO8601.text(session.createdAt))
            json.field("last_used_at", ISO8601.text(session.lastUsedAt))
            json.field("expires_at", ISO8601.text(session.deadline))
            json.endObject()
        }
        json.key("metadata")
        json.verbatim(metadata.json.rawBytes)
    }
}
