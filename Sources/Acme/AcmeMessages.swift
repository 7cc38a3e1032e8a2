package import Wire

/// A request to an ACME server: a GET, or a POST of `body`.
package struct AcmeRequest: Equatable, Sendable {
    package let url: String
    package let body: [UInt8]?

    package static func get(_ url: String) -> Self { Self(url: url, body: nil) }
}

/// The server's response, as far as it is used.
package struct AcmeResponse: Sendable {
    package var status = 0
    package var body: [UInt8] = []
    package var nonce: String?
    package var location: String?
    /// Values of `Link`.
    package var links: [String] = []
    /// Unparsed; see `seconds(at:)`.
    package var retryAfter: String?
    /// The error of the transfer; nil if the server responded.
    package var problem: String?

    package init(status: Int = 0, body: [UInt8] = []) { (self.status, self.body) = (status, body) }

    var isSuccess: Bool { 200...299 ~= status }
    var json: JSONTree { JSONTree(body.rawBytes) ?? .null }

    /// Of a directory: where the authority says when certificates are to be renewed (RFC 9773); nil where it does not.
    package var renewalInfo: String? { isSuccess ? json["renewalInfo"].text : nil }

    /// `Retry-After` in seconds from now, a week at most; nil without a valid one.
    package func seconds(at now: WallTime) -> Int64? {
        let date = retryAfter?.withRawBytes(HTTPDate.parse)
        return (retryAfter.flatMap { Int64($0) } ?? date.map { $0.seconds - now.seconds }).map { min(max($0, 0), 604_800) }
    }

    /// The addresses of `Link` values with `rel="alternate"`.
    var alternates: [String] {
        links.flatMap { $0.split(separator: ",") }.compactMap { link in
            let parts = link.split(separator: ";").map { $0.drop(while: { $0 == " " }) }
            guard let target = parts.first, target.hasPrefix("<"), target.hasSuffix(">"),
                parts.dropFirst().contains(where: { $0 == "rel=\"alternate\"" || $0 == "rel=alternate" })
            else { return nil }
            return String(target.dropFirst().dropLast())
        }
    }
}

/// Why a certificate was not issued.
package struct AcmeFailure: Error, Equatable, Sendable {
    /// The part that the operator has to look at.
    package enum Cause: String, CaseIterable, Sendable {
        /// The name's records in DNS.
        case dns
        /// Its CAA records.
        case caa
        /// The server cannot connect to the port of the challenge.
        case port
        /// It connects, and does not find the response to the challenge.
        case challenge
        /// Too many orders or failures.
        case rateLimit = "rate-limit"
        /// The account or its binding is refused, or its holder must act.
        case account
        /// The name or the order is refused.
        case order
        /// The server fails, or breaks the protocol.
        case server
        /// The server cannot be reached.
        case unreachable
        /// The challenge could not be set up here.
        case here
    }

    package let cause: Cause
    /// For the operator, with the server's own detail.
    package private(set) var sentence: String
    /// Seconds until the server takes another order, as it says.
    package var retryAfter: Int64?
    /// Whether the server had taken the order: it counts for its limits.
    package var hadOrder = false

    package init(_ cause: Cause, _ sentence: String) { (self.cause, self.sentence) = (cause, sentence) }

    /// The same with something else that the operator may have to look at.
    package func adding(_ clause: String) -> Self {
        var failure = self
        failure.sentence += "; \(clause)"
        return failure
    }

    /// From a problem document (RFC 8555 §6.7): `doing` is what was tried.
    init(problem: JSONTree, status: Int? = nil, doing: String) {
        // The server's word is for people, and is bounded like any other text from outside.
        let type = problem["type"].text.map { Self.bounded($0.split(separator: ":").last ?? "") } ?? ""
        let detail = problem["detail"].text.map { ": " + Self.bounded($0) } ?? ""
        let cause = Self.cause(type, detail, status)
        let about = cause.about.map { "\($0) " } ?? ""
        let said = type.isEmpty ? status.map { " (status \($0))" } ?? "" : " (\(type))"
        self.init(cause, "\(about)\(doing)\(said)\(detail)")
    }

    private static func cause(_ type: String, _ detail: String, _ status: Int?) -> Cause {
        switch type {
        // Older pebbles call every failure of these challenges so.
        case "unauthorized" where detail.contains("Failed to connect to"): .port
        case "unauthorized" where detail.contains("Error retrieving TXT records"): .dns
        case "dns": .dns
        case "caa": .caa
        case "connection": .port
        case "unauthorized", "incorrectResponse", "tls": .challenge
        case "rateLimited": .rateLimit
        case "userActionRequired", "accountDoesNotExist", "externalAccountRequired", "invalidContact", "unsupportedContact": .account
        case "rejectedIdentifier", "unsupportedIdentifier", "badCSR", "orderNotReady", "invalidProfile", "malformed": .order
        default: status == 429 ? .rateLimit : .server
        }
    }

    private static func bounded(_ text: some StringProtocol) -> String {
        String(String.UnicodeScalarView(text.unicodeScalars.prefix(400).map { $0.value < 0x20 || $0.value == 0x7F ? " " : $0 }))
    }
}

extension AcmeFailure.Cause {
    fileprivate var about: String? {
        switch self {
        case .dns: "the name is not found in DNS;"
        case .caa: "the CAA records of the name forbid this authority;"
        case .port: "the authority cannot connect to this gateway;"
        case .challenge: "the authority does not find the response to its challenge;"
        case .rateLimit: "the authority takes no order now;"
        case .account: "the authority refuses the account;"
        case .order, .server, .unreachable, .here: nil
        }
    }
}
