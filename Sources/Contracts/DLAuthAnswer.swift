import Accounts
import HTTP
import Wire

/// The JSON objects in the responses of `dlauth`.
enum DLAuthAnswer {
    /// A user and a session, which is `null` while the email must be proven first.
    static func session(_ account: Account, _ grant: SessionGrant?) -> LocalResponse {
        .json { json in
            json.beginObject()
            json.key("user")
            write(account, &json)
            json.key("session")
            if let grant {
                json.beginObject()
                write(grant, &json)
                json.endObject()
            } else {
                json.null()
            }
            json.endObject()
        }
    }

    /// A session that contains its user.
    static func refreshed(_ granted: Sessions.Granted) -> LocalResponse {
        .json { json in
            json.beginObject()
            write(granted.grant, &json)
            json.key("user")
            write(granted.account, &json)
            json.endObject()
        }
    }

    static func user(_ account: Account) -> LocalResponse {
        .json { json in write(account, &json) }
    }

    static func message(_ text: StaticString) -> LocalResponse {
        .json { json in
            json.beginObject()
            json.field("message", text)
            json.endObject()
        }
    }

    /// The members of a session. `token` repeats `access_token`: the published client decodes only that one, because it
    /// converts from snake_case twice.
    private static func write(_ grant: SessionGrant, _ json: inout JSONWriter) {
        json.field("access_token", grant.tokens.access)
        json.field("token", grant.tokens.access)
        json.key("refresh_token")
        if let refresh = grant.tokens.refresh { json.string(refresh) } else { json.null() }
        json.field("expires_in", Int(grant.tokens.accessSeconds))
        json.field("expires_at", seconds(WallTime(seconds: grant.tokens.accessExpiresAt)))
        json.field("token_type", "Bearer" as StaticString)
    }

    private static func write(_ account: Account, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("id", account.id.text)
        write("email", account.email?.text, &json)
        write("phone", account.phone?.text, &json)
        write("email_confirmed_at", account.emailConfirmedAt.map(seconds), &json)
        write("phone_confirmed_at", account.phoneConfirmedAt.map(seconds), &json)
        json.field("created_at", seconds(account.createdAt))
        json.field("updated_at", seconds(account.updatedAt))
        json.key("metadata")
        json.verbatim(account.metadata.json.rawBytes)
        json.endObject()
    }

    private static func write(_ name: StaticString, _ text: String?, _ json: inout JSONWriter) {
        json.key(name)
        if let text { json.string(text) } else { json.null() }
    }

    /// RFC 3339 without fractional seconds, which the client's decoder rejects.
    private static func seconds(_ time: WallTime) -> String { ISO8601.text(time).prefix(19) + "Z" }
}
