import HTTP
import Wire

/// The origins whose pages may call a route and read its answers.
package enum CORSOrigins: Hashable, Sendable {
    /// `*`: every origin, `null` included, without credentials of the browser.
    case any
    case listed([OriginPattern])

    /// Why words are no list of origins: the rest of a sentence that begins with `word`.
    package struct Fault: Error, Equatable, Sendable {
        package let word: String
        package let message: String
    }

    /// The origins that `words` name; there is at least one.
    package init(_ words: [String]) throws(Fault) {
        if words.contains("*") {
            guard words.count == 1 else { throw Fault(word: "*", message: "is every origin, keep it alone or remove it") }
            self = .any
            return
        }
        var origins: [OriginPattern] = []
        for word in words {
            do throws(OriginPattern.Fault) {
                let origin = try OriginPattern(parsing: word)
                if !origins.contains(origin) { origins.append(origin) }
            } catch {
                throw Fault(word: word, message: error.message)
            }
        }
        self = .listed(origins)
    }

    package var text: String {
        switch self {
        case .any: "*"
        case .listed(let origins): origins.map(\.text).joined(separator: ",")
        }
    }

    func allows(_ origin: RawSpan) -> Bool {
        switch self {
        case .any: true
        case .listed(let origins): origins.contains { $0.matches(origin) }
        }
    }
}

/// The CORS policy of a route: `cors=` and its companions.
package struct CORSRule: Hashable, Sendable {
    package var origins: CORSOrigins
    /// Whether pages may send cookies and the like (`cors-credentials=on`). Not with `CORSOrigins.any`.
    package var allowsCredentials = false
    /// Request fields that pages may send beside `usualRequestFields`.
    package var requestFields: [String] = []
    /// Answer fields that pages may read beside `exposedFields`.
    package var furtherExposed: [String] = []
    /// How long a browser may keep the answer to a preflight, in seconds.
    package var maxAgeSeconds: UInt32 = 600

    package init(_ origins: CORSOrigins) { self.origins = origins }

    /// Request fields that pages may always send: those of tokens, content, conditions, ranges, event streams and traces. The
    /// first four are named because Fetch safelists only some of their values.
    package static let usualRequestFields = [
        "Accept", "Accept-Language", "Content-Language", "Content-Type", "Authorization", "If-Match", "If-Modified-Since",
        "If-None-Match", "If-Unmodified-Since", "Last-Event-ID", "Range", "traceparent", "tracestate", "X-Request-Id", "DPoP",
    ]

    /// Answer fields of the gateway's own, which pages may always read.
    package static let exposedFields: [String] = {
        let names: [FieldName] = [
            .wwwAuthenticate, .retryAfter, .rateLimit, .rateLimitPolicy, .xRateLimitLimit, .xRateLimitRemaining, .xRateLimitReset,
            .xRequestID, .xNewAccessToken, .xNewRefreshToken, .xNewTokenExpiresAt,
        ]
        return names.map { $0.text.description } + ["DPoP-Nonce"]
    }()
}

/// A compiled `CORSRule`: its constant fields as field lines.
struct CORSGate: Sendable {
    let rule: CORSRule
    /// `Access-Control-Allow-Origin: *`, where every origin is allowed; empty otherwise.
    let anyOrigin: [UInt8]
    /// Fields of every answer beside `Access-Control-Allow-Origin`.
    let answer: [UInt8]
    /// Further fields of the answer to a preflight, beside `Access-Control-Allow-Methods`.
    let preflight: [UInt8]

    init(_ rule: CORSRule) {
        self.rule = rule
        precondition(rule.origins != .any || !rule.allowsCredentials, "every origin with credentials")
        anyOrigin = rule.origins == .any ? Array("Access-Control-Allow-Origin: *\r\n".utf8) : []
        let credentials = rule.allowsCredentials ? "Access-Control-Allow-Credentials: true\r\n" : ""
        let exposed = Self.list(CORSRule.exposedFields, rule.furtherExposed)
        let allowed = Self.list(CORSRule.usualRequestFields, rule.requestFields)
        answer = Array("\(credentials)Access-Control-Expose-Headers: \(exposed)\r\n".utf8)
        preflight = Array("Access-Control-Allow-Headers: \(allowed)\r\nAccess-Control-Max-Age: \(rule.maxAgeSeconds)\r\n".utf8)
    }

    /// Each name once, in any case.
    private static func list(_ names: [String], _ more: [String]) -> String {
        var seen: Set<String> = []
        return (names + more).filter { seen.insert($0.lowercased()).inserted }.joined(separator: ", ")
    }
}
