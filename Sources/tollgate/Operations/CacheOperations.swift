internal import Admin
internal import Credentials
internal import Gate
internal import HTTP
internal import Proxy
internal import Wire

extension AdminOperation {
    /// The responses that routes with `cache=` keep.
    static func cache(_ gateway: some OperatedGateway) -> [AdminOperation] {
        [
            AdminOperation(
                "GET", "cache", "getCache", "The responses that this gateway keeps: all, or those that all parameters hold for",
                access: .scope(.gatewayRead),
                query: [
                    Parameter("route", "The route's name"), Parameter("path", "The beginning of the path"),
                    Parameter("tag", "A word of `Surrogate-Key` or `Cache-Tag`"),
                ], answers: ShownCache.shape
            ) { _, call in
                let selector = CacheSelector(route: call.query["route"], path: call.query["path"], tag: call.query["tag"])
                return ShownCache(await gateway.stored(selector))
            },
            AdminOperation(
                "POST", "cache/purge", "purgeCache",
                "Removes kept responses from all gateways of the database: those that all members hold for, or all; counts those of this one",
                access: .operator,
                body: .object([
                    .may("route", .text), .may("path", .text, "The beginning of the path"), .may("tag", .text),
                    .may("all", .boolean, "`true` in place of the others"),
                ]), answers: ShownCache.shape
            ) { _, call in ShownCache(try await gateway.purge(try CacheSelector(purging: call.request.body))) },
        ]
    }
}

extension CacheSelector {
    /// Reads the body of a purge, which must not remove more than is meant: unknown members are refused, and so is none.
    init(purging body: [UInt8]) throws {
        func refusal(_ message: String) -> AdminRefusal { AdminRefusal(400, "BAD_REQUEST", message) }
        let object = try RequestObject(body)
        try object.allow(["route", "path", "tag", "all"])
        self.init(route: try object.text("route"), path: try object.text("path"), tag: try object.text("tag"))
        guard object.has("all") else {
            if self == CacheSelector() { throw refusal("route, path or tag must say which responses are removed, or all must be true") }
            return
        }
        guard object.names == ["all"], body.filter({ !$0.isWhiteSpace }) == Array(#"{"all":true}"#.utf8) else {
            throw refusal("all must be true and stand alone")
        }
    }
}

extension CacheSelector {
    /// The body of a purge.
    var purge: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        if self == CacheSelector() { json.field("all", true) }
        for (name, value) in [("route", route), ("path", path), ("tag", tag)] {
            guard let value else { continue }
            json.key(name)
            json.string(value)
        }
        json.endObject()
        return json.finish().readable.array
    }
}

extension UInt8 {
    fileprivate var isWhiteSpace: Bool { self == 0x20 || self == 0x09 || self == 0x0A || self == 0x0D }
}

/// Kept responses, in all and by route.
struct ShownCache: Recorded {
    let entries: Int
    let bytes: Int
    let routes: [CacheOfRoute]

    init(_ totals: CacheTotals) {
        (entries, bytes) = (totals.entries, totals.bytes)
        routes = totals.routes.map { CacheOfRoute(route: $0.key, entries: $0.value.entries, bytes: $0.value.bytes) }
            .sorted { $0.route < $1.route }
    }

    package static let record = Record<Self>([
        .has("entries", \.entries), .has("bytes", about: "With heads and keys", \.bytes), .has("routes", \.routes),
    ])
}

struct CacheOfRoute: Recorded {
    let route: String
    let entries: Int
    let bytes: Int

    package static let record = Record<Self>([.has("route", \.route), .has("entries", \.entries), .has("bytes", \.bytes)])
}
