import Gate
import HTTP
import Wire

/// `GET /admin/api/limits`: the limits of routes, and the keys that they refused most often.
extension AdminAPI {
    /// The largest number of keys in an answer.
    private static let hottest = 50

    func showLimits() async -> LocalResponse {
        let (lines, redis, now) = (gateway.controls.limits(), gateway.controls.redis(), now())
        let hottest = await gateway.controls.hottest(Self.hottest)
        return .json(200) { json in
            json.beginObject()
            json.array("policies", lines) { json, line in
                json.beginObject()
                json.field("route", line.route)
                json.field("policy", line.policy)
                json.field("limit", line.limit)
                json.field("key", line.by)
                json.field("failure", line.failure)
                json.field("shadow", line.isShadowed)
                json.endObject()
            }
            json.field("hottest_since", ISO8601.text(HottestKeys.since(now)))
            json.array("hottest", hottest) { json, hot in
                json.beginObject()
                json.field("route", hot.key.route)
                json.field("policy", hot.key.policy)
                json.field("limit", hot.key.limit)
                json.field("by", hot.key.by.text)
                json.field("key", hot.key.key)
                json.field("kind", hot.key.issuer == nil ? "address" : "user")
                json.optional("issuer", hot.key.issuer)
                json.field("refused", Int(clamping: hot.refused))
                json.endObject()
            }
            json.key("redis")
            json.beginObject()
            json.field("configured", redis != nil)
            if let redis {
                json.field("topology", redis.topology)
                json.field("state", redis.state)
                json.optional("reason", redis.reason)
            }
            json.endObject()
            json.endObject()
        }
    }
}
