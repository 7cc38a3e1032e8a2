internal import Credentials
internal import Gate
internal import HTTP
internal import Telemetry
internal import Wire

extension AdminOperation {
    /// The gateway itself: its traffic, routes, upstreams and refusals.
    static let gateway = [
        AdminOperation("GET", "now", "getNow", "The gateway's totals since its start, and its condition", access: .scope(.gatewayRead), answers: .json(.named("Now"))) {
            api, _ in LocalResponse(status: 200, contentType: "application/json; charset=utf-8", body: await api.gateway.now())
        },
        AdminOperation(
            "GET", "live", "watch",
            "Each second an event `now`, and one for each refusal, at most fifty a second; `skipped` counts those left out. Ends when the gateway drains", access: .scope(.gatewayRead),
            answers: .events([
                ("now", .named("Now")), ("refusal", .named("Decision")), ("skipped", .object([.has("count", .integer)])),
            ])
        ) { api, call in try api.watch(call.request, call.actor) },
        AdminOperation(
            "GET", "routes", "listRoutes", "The resolved routes with their counts, and the endpoints of the contracts", access: .scope(.gatewayRead),
            answers: .json(.object([.has("routes", .array(.named("Route"))), .has("endpoints", .array(.named("Endpoint")))]))
        ) { api, _ in await api.showRoutes() },
        AdminOperation(
            "GET", "upstreams", "listUpstreams", "Each address of the upstreams: whether it is in, why not and until when", access: .scope(.gatewayRead),
            answers: .json(.object([.has("upstreams", .array(.named("Upstream")))]))
        ) { api, _ in
            let statuses = await api.gateway.upstreams()
            return .json { json in
                json.beginObject()
                write(statuses, &json)
                json.endObject()
            }
        },
        AdminOperation(
            "GET", "decisions", "listDecisions", "The newest refusals with their steps; 256 are kept for each worker", access: .scope(.gatewayRead),
            query: [
                Parameter("request_id", "That of one response"), Parameter("route", "The name of the route"),
                Parameter("code", "Such as RATE_LIMITED"), Parameter("status", "The HTTP status", .range(100...599)),
                Parameter("user", "The id of the user whose token was accepted"), Parameter("limit", "At most so many", .range(1...1_000)),
            ], answers: .json(.object([.has("decisions", .array(.named("Decision")))]))
        ) { api, call in try await api.decisions(call.query) },
        AdminOperation(
            "POST", "explain", "explain", "The steps and the verdict for a request, without sending it; like tollgate explain",
            access: .scope(.gatewayRead),
            body: .object([
                .has("method", .text), .has("url", .text, "http://HOST/PATH, or a path alone"), .may("token", .text, "The bearer; never logged"),
                .may("from", .text, "The client's address; 127.0.0.1 without it"), .may("headers", .map(.text)),
            ]), answers: .json(.named("Walk"))
        ) { api, call in try await api.explain(call.request) },
    ]

    static let gatewaySchemas: [(name: String, schema: JSONSchema)] = [
        ("Now", .object([
            .has("at", .time), .has("uptime_seconds", .integer), .has("version", .text), .has("instance", .text), .has("workers", .integer),
            .has("requests_total", .integer), .has("by_status", .map(.integer), "By class, and those without an answer as aborted"),
            .has("refusals", .map(.integer), "By code"), .has("limited_total", .integer),
            .has("latency_seconds", .map(.nullable(.number)), "p50, p90 and p99, estimated from the buckets; null without requests"),
            .has("duration_buckets", .array(.object([.has("le", .number), .has("count", .integer)])), "Each request in one bucket"),
            .has("connections", .object([.has("open", .integer), .has("http2_streams", .integer)])), .has("streams_open", .integer),
            .has("bus", .object([
                .may("carrier", .text), .has("connected", .boolean), .has("messages", .integer), .has("refused", .integer),
            ])),
            .has("keys", .map(.object([
                .has("keys", .integer), .has("fetches", .integer), .has("failures", .integer), .may("fetched_at", .time),
            ])), "By issuer"),
            .has("checks", .array(.object([
                .has("name", .text), .has("state", .words(["ready", "degraded", "unready"])), .may("reason", .text),
            ])), "Those of /readyz"),
            .has("upstreams", .array(.named("Upstream"))),
        ])),
        ("Route", .object([
            .has("name", .text), .has("methods", .array(.text)), .may("host", .text), .has("path", .text), .has("upstream", .text),
            .has("auth", .text), .may("tier", .text), .may("limit", .text), .may("limit_by", .text), .has("claims", .array(.text)),
            .may("max_age", .text), .has("identity", .text), .has("forward", .array(.text)), .has("keep", .array(.text)), .may("strip", .text),
            .may("timeout", .text), .has("body_limit", .integer), .may("retries", .integer), .has("errors", .text), .has("encoded_slash", .text),
            .has("filter", .array(.text)), .may("filter_strict", .boolean), .may("filter_unlabelled", .text), .has("shadow", .array(.text)),
            .has("stream_expiry", .text), .may("stream_warning", .text), .may("sse_heartbeat", .text), .has("websocket", .boolean),
            .may("websocket_max", .integer), .has("authorization", .text), .may("cors", .object([
                .has("origins", .text), .has("credentials", .boolean), .has("headers", .array(.text)), .has("expose", .array(.text)),
                .has("max_age_s", .integer),
            ])), .has("counts", .object([
                .has("requests", .integer), .has("refused", .integer), .has("2xx", .integer), .has("3xx", .integer), .has("4xx", .integer),
                .has("5xx", .integer), .has("p50", .nullable(.number), "Seconds"), .has("p99", .nullable(.number), "Seconds"),
            ])),
        ])),
        ("Endpoint", .object([
            .has("name", .text), .has("mount", .text), .has("methods", .array(.text)), .has("path", .text), .has("auth", .text),
            .has("errors", .text),
        ])),
        ("Upstream", .object([
            .has("name", .text), .has("panic", .boolean), .has("bounded_requests", .integer), .has("bounded_pending", .integer),
            .has("retries", .integer), .has("addresses", .array(.object([
                .has("address", .text), .has("state", .words(["in", "starting", "ejected", "unhealthy"])), .may("reason", .text),
                .may("detail", .text), .may("since", .time), .may("until", .time), .has("share", .integer), .has("ejections", .integer),
                .has("requests", .integer), .has("connections", .integer),
            ]))),
        ])),
        ("Decision", .object([
            .has("request_id", .text), .has("time", .time), .has("method", .text), .has("host", .text), .has("path", .text, "Without the query"),
            .may("route", .text), .may("user", .text, "Whose token was accepted"),
        ] + verdict)),
        ("Walk", .object([.has("method", .text), .has("url", .text), .may("route", .text)] + verdict)),
    ]

    private static let verdict: [JSONSchema.Member] = [
        .has("steps", .array(.object([.has("step", .text), .has("text", .text)]))), .has("passes", .boolean), .may("status", .range(100...599)),
        .may("code", .text),
    ]

    fileprivate static func write(_ statuses: [UpstreamStatus], _ json: inout JSONWriter) {
        json.array("upstreams", statuses) { json, status in
            json.beginObject()
            status.write(&json)
            json.endObject()
        }
    }
}

extension AdminGateway {
    /// The answer of `GET /admin/api/now`.
    func now() async -> [UInt8] {
        let traffic = TrafficSummary(await reports())
        let statuses = await upstreams()
        let (process, readiness, now) = (process(), readiness(), now())
        var out = ByteBuffer(capacity: 4_096)
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("at", ISO8601.text(now))
            json.field("uptime_seconds", Int(max(0, now.seconds - startedAt.seconds)))
            json.field("version", Version.text)
            json.field("instance", instance)
            json.field("workers", workers)
            traffic.write(&json)
            process.write(&json)
            json.array("checks", readiness.checks) { json, check in
                json.beginObject()
                json.field("name", check.name)
                json.field("state", check.state.text)
                json.optional("reason", check.reason)
                json.endObject()
            }
            AdminOperation.write(statuses, &json)
            json.endObject()
        }
        return out.readable.array
    }
}

extension AdminAPI {
    fileprivate func showRoutes() async -> LocalResponse {
        let traffic = TrafficSummary(await gateway.reports())
        return .json { json in
            json.beginObject()
            gateway.writeRoutes(&json) { name, json in
                json.key("counts")
                json.beginObject()
                (traffic.routes[name] ?? TrafficSummary.Counts()).write(&json)
                json.endObject()
            }
            json.endObject()
        }
    }

    fileprivate func decisions(_ query: AdminQuery) async throws -> LocalResponse {
        var wanted = RefusalQuery(limit: try query.limit())
        wanted.requestID = query["request_id"]
        wanted.route = query["route"]
        wanted.code = query["code"]
        wanted.user = query["user"]
        if let text = query["status"] {
            guard let status = UInt16(text), 100..<600 ~= status else {
                throw AdminRefusal(400, "BAD_REQUEST", "status must be an HTTP status, such as 429")
            }
            wanted.status = status
        }
        let stories = await gateway.refusals(wanted)
        return .json { json in
            json.beginObject()
            json.array("decisions", stories) { json, story in
                json.beginObject()
                story.write(&json)
                json.endObject()
            }
            json.endObject()
        }
    }

    fileprivate func explain(_ request: LocalRequest) async throws -> LocalResponse {
        let body = try RequestObject(request.body)
        guard let method = try body.text("method"), let url = try body.text("url") else {
            throw AdminRefusal(400, "BAD_REQUEST", "method and url are required")
        }
        var headers: [(name: String, value: String)] = []
        if let given = try body.object("headers") {
            for name in given.names {
                if let value = try given.text(name) { headers.append((name, value)) }
            }
        }
        let question = ExplainQuestion(
            method: method, url: url, token: try body.text("token"), from: try body.text("from"), headers: headers)
        switch await gateway.explain(question) {
        case .explained(let steps, let explanation, let route):
            return .json { json in
                json.beginObject()
                json.field("method", method)
                json.field("url", url)
                json.optional("route", route)
                explanation.write(steps, &json)
                json.endObject()
            }
        case .invalid(let why): throw AdminRefusal(400, "BAD_REQUEST", why)
        case .busy: throw AdminRefusal(503, "UNAVAILABLE", "Another request is being explained", [("Retry-After", "1")])
        case .failed(let why): throw AdminRefusal(503, "UNAVAILABLE", why, [("Retry-After", "1")])
        }
    }

    fileprivate func watch(_ request: LocalRequest, _ actor: AdminActor) throws -> LocalResponse {
        let head = LocalResponse(
            status: 200, contentType: "text/event-stream", body: [], fields: [("X-Accel-Buffering", "no")])
        if request.method == "HEAD" { return head }
        guard let stream = live.listen(while: { proves(request, actor) }) else {
            throw AdminRefusal(503, "UNAVAILABLE", "\(LiveFeed.mostListeners) others are listening", [("Retry-After", "5")])
        }
        var response = head
        response.stream = stream
        return response
    }
}
