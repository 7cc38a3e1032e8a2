internal import Credentials
internal import Gate
internal import HTTP
internal import Telemetry

extension AdminOperation {
    /// The gateway's traffic, upstreams and refusals.
    static let gateway = [
        AdminOperation(
            "GET", "now", "getNow", "The gateway's totals since its start, and its condition", access: .scope(.gatewayRead),
            answers: GatewayNow.shape
        ) { api, _ in await GatewayNow(api.gateway) },
        AdminOperation(
            "GET", "live", "watch",
            "Each second an event `now`, and one for each refusal, at most fifty a second; `skipped` counts those left out. Ends when the gateway drains",
            access: .scope(.gatewayRead),
            success: .events([
                ("now", GatewayNow.shape.schema), ("refusal", ExplainedRefusal.shape.schema),
                ("skipped", .object([.has("count", .integer)])),
            ])
        ) { api, call in try api.watch(call.request, call.actor) },
        AdminOperation(
            "GET", "upstreams", "listUpstreams", "Each address of the upstreams: whether it is in, why not and until when",
            access: .scope(.gatewayRead), answers: .list("upstreams")
        ) { api, _ -> [UpstreamStatus] in await api.gateway.upstreams() },
        AdminOperation(
            "GET", "decisions", "listDecisions", "The newest refusals with their steps; 256 are kept for each worker",
            access: .scope(.gatewayRead),
            query: [
                Parameter("request_id", "That of one response"), Parameter("route", "The name of the route"),
                Parameter("code", "Such as RATE_LIMITED"), Parameter("status", "The HTTP status", .range(100...599)),
                Parameter("user", "The id of the user whose token was accepted"), Parameter("limit", "At most so many", .range(1...1_000)),
            ], answers: .list("decisions")
        ) { api, call -> [ExplainedRefusal] in await api.gateway.refusals(try RefusalQuery(call.query)) },
    ]
}

extension RefusalQuery {
    fileprivate init(_ query: AdminQuery) throws(AdminRefusal) {
        self.init(limit: try query.limit())
        requestID = query["request_id"]
        route = query["route"]
        code = query["code"]
        user = query["user"]
        if let text = query["status"] {
            guard let status = UInt16(text), 100..<600 ~= status else {
                throw AdminRefusal(400, "BAD_REQUEST", "status must be an HTTP status, such as 429")
            }
            self.status = status
        }
    }
}

extension AdminAPI {
    fileprivate func watch(_ request: LocalRequest, _ actor: AdminActor) throws -> LocalResponse {
        let head = LocalResponse(
            status: 200, contentType: "text/event-stream", body: [], fields: [("X-Accel-Buffering", "no")])
        if request.method == "HEAD" { return head }
        guard let stream = live.listen(while: { proves(request, actor) }) else {
            throw AdminRefusal(503, "UNAVAILABLE", "\(LiveFeed.maxListeners) others are listening", [("Retry-After", "5")])
        }
        var response = head
        response.stream = stream
        return response
    }
}
