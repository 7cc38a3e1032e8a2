import Accounts
import Wire

/// Webhooks of RevenueCat.
enum RevenueCatSamples {
    /// Times are in seconds; `end` is nil for a purchase without end.
    static func event(
        _ type: String, at: Int = 1_000, start: Int = 900, end: Int? = 1_900, user: String = alice.text, environment: String = "PRODUCTION",
        more: String = ""
    ) -> [UInt8] {
        Array(
            """
            {"api_version":"1.0","event":{"id":"ev_1","type":"\(type)","event_timestamp_ms":\(at)000,"environment":"\(environment)",
             "app_user_id":"\(user)","original_app_user_id":"$RCAnonymousID:1","aliases":["$RCAnonymousID:1"],"product_id":"premium:monthly",
             "purchased_at_ms":\(start)000,"expiration_at_ms":\(end.map { "\($0)000" } ?? "null"),"transaction_id":"t2",
             "original_transaction_id":"t1","store":"PLAY_STORE","price":4.99\(more)}}
            """.utf8)
    }

    static func transfer(from: [String], to: [String]) -> [UInt8] {
        func list(_ ids: [String]) -> String { ids.map { "\"\($0)\"" }.joined(separator: ",") }
        return Array(
            """
            {"event":{"id":"ev_1","type":"TRANSFER","event_timestamp_ms":1000000,"environment":"PRODUCTION",
             "transferred_from":[\(list(from))],"transferred_to":[\(list(to))]}}
            """.utf8)
    }

    /// By a type and, behind a slash, its reason.
    static func sample(_ name: String) -> [UInt8] {
        let parts = name.split(separator: "/").map(String.init)
        if parts[0] == "TRANSFER" { return transfer(from: [alice.text], to: [bob.text]) }
        let reason = parts.dropFirst().first.map { #","cancel_reason":"\#($0)","expiration_reason":"\#($0)""# } ?? ""
        let grace = name == "BILLING_ISSUE/grace" ? #","grace_period_expiration_at_ms":2500000"# : ""
        return event(parts[0], end: parts.last == "without end" ? nil : 1_900, more: reason + grace)
    }
}
