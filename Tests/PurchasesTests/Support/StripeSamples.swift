import Accounts
import Credentials
import Wire

/// Stripe's objects and events, small.
enum StripeSamples {
    static func event(_ type: String, _ object: String, at: Int = 1_000, isLive: Bool = true, id: String = "evt_1") -> [UInt8] {
        Array(
            #"{"id":"\#(id)","object":"event","type":"\#(type)","created":\#(at),"livemode":\#(isLive),"data":{"object":\#(object)}}"#.utf8)
    }

    /// In both generations of the API: the period stands on the subscription, or on its item.
    static func subscription(
        _ status: String, isNew: Bool = true, start: Int = 900, end: Int = 1_900, account: UUID? = nil, more: String = ""
    ) -> String {
        let period = #","current_period_start":\#(start),"current_period_end":\#(end)"#
        let metadata = account.map { #""account_id":"\#($0.text)""# } ?? ""
        return """
            {"id":"sub_1","object":"subscription","status":"\(status)","metadata":{\(metadata)},"latest_invoice":"in_1"\(isNew ? "" : period)\(more),
             "items":{"object":"list","data":[{"id":"si_1","price":{"id":"price_1"}\(isNew ? period : "")}]}}
            """
    }

    static func session(
        _ mode: String = "subscription", status: String = "complete", payment: String = "paid", account: String? = alice.text,
        subscription: String = #""sub_1""#, intent: String = #""pi_1""#, isLive: Bool = true, more: String = ""
    ) -> String {
        """
        {"id":"cs_1","object":"checkout.session","mode":"\(mode)","status":"\(status)","payment_status":"\(payment)","created":990,
         "client_reference_id":\(account.map { "\"\($0)\"" } ?? "null"),"livemode":\(isLive),"metadata":{},
         "subscription":\(mode == "payment" ? "null" : subscription),"payment_intent":\(mode == "payment" ? intent : "null")\(more)}
        """
    }

    static let lineItems = #","line_items":{"object":"list","data":[{"id":"li_1","price":{"id":"price_2"}}]}"#

    static func invoice(isNew: Bool = true, reason: String = "subscription_cycle", start: Int = 900) -> String {
        let period = #""period":{"start":\#(start),"end":1900}"#
        let line =
            isNew
            ? #"{"id":"il_1",\#(period),"parent":{"type":"subscription_item_details","subscription_item_details":{"proration":false}},"#
                + #""pricing":{"price_details":{"price":"price_1"}}}"#
            : #"{"id":"il_1","type":"subscription","proration":false,\#(period),"price":{"id":"price_1"}}"#
        let parent =
            isNew
            ? #""parent":{"type":"subscription_details","subscription_details":{"subscription":"sub_1"}}"#
            : #""subscription":"sub_1","charge":"ch_1","payment_intent":"pi_1""#
        return #"{"id":"in_1","object":"invoice","billing_reason":"\#(reason)",\#(parent),"lines":{"data":[\#(line)]}}"#
    }

    static func charge(refunded: Bool = true, invoice: String? = "in_1") -> String {
        #"{"id":"ch_1","object":"charge","refunded":\#(refunded),"payment_intent":"pi_1"\#(invoice.map { ",\"invoice\":\"\($0)\"" } ?? "")}"#
    }

    static func dispute(_ status: String) -> String {
        #"{"id":"dp_1","object":"dispute","status":"\#(status)","charge":"ch_1","payment_intent":"pi_1"}"#
    }

    /// An event of each type that has an effect, with the answer to its question.
    static func sample(_ type: String) -> [UInt8] {
        switch type {
        case "checkout.session.completed": event(type, session())
        case "checkout.session.async_payment_succeeded": event(type, session("payment"))
        case "customer.subscription.deleted": event(type, subscription("canceled", more: #","ended_at":1000"#))
        case "customer.subscription.paused": event(type, subscription("paused"))
        case let type where type.hasPrefix("customer.subscription."): event(type, subscription("active"))
        case let type where type.hasPrefix("invoice."): event(type, invoice())
        case "charge.refunded": event(type, charge())
        case "refund.failed": event(type, #"{"id":"re_1","object":"refund","status":"failed","charge":"ch_1","payment_intent":"pi_1"}"#)
        case "charge.dispute.closed", "charge.dispute.funds_reinstated": event(type, dispute("won"))
        case let type where type.hasPrefix("charge.dispute."): event(type, dispute("needs_response"))
        case _: event(type, "{}")
        }
    }

    static func signed(_ body: [UInt8], at time: Int64, secret: String) -> String {
        let signature = Digest.hmacSHA256((Array("\(time).".utf8) + body).rawBytes, key: Array(secret.utf8).rawBytes)
        var hex = ByteBuffer(capacity: 64)
        for byte in signature { hex.append(hex: UInt64(byte), digits: 2) }
        return "t=\(time),v1=\(hex.readable.text)"
    }
}
