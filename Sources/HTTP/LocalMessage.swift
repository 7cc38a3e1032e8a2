package import Wire

/// A whole request that the gateway answers itself: a contract's endpoint, a page, a metric. Bounded and collected.
package struct LocalRequest: Sendable {
    package var method: String
    /// The request target as it was sent.
    package var target: String
    /// The target's path, as it was sent.
    package var path: String
    /// With its question mark, or empty.
    package var query: String
    /// In order, names as they were sent.
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]
    /// The client's address, behind trusted proxies.
    package var client: IPAddress
    package var requestID: String
    /// Whether it came over TLS, to the gateway or to a trusted proxy in front.
    package var isSecure: Bool
    /// Whether it came from a trusted proxy, whose `X-Forwarded-Host` counts.
    package var isFromProxy = false
    /// The caller, if the request had a valid token.
    package var caller: LocalCaller?

    package init(
        method: String, target: String, path: String, query: String, fields: [(name: String, value: String)],
        body: [UInt8], client: IPAddress, requestID: String, isSecure: Bool = false, caller: LocalCaller? = nil
    ) {
        self.method = method
        self.target = target
        self.path = path
        self.query = query
        self.fields = fields
        self.body = body
        self.client = client
        self.requestID = requestID
        self.isSecure = isSecure
        self.caller = caller
    }

    /// The first value of a field; `name` in lower case.
    package func value(of name: StaticString) -> String? {
        fields.first { $0.name.withRawBytes { $0.equalsIgnoringCase(name) } }?.value
    }

    /// All values of a field; `name` in lower case.
    package func values(of name: StaticString) -> [String] {
        fields.filter { $0.name.withRawBytes { $0.equalsIgnoringCase(name) } }.map(\.value)
    }
}

/// The caller of a local request, from its verified token.
package struct LocalCaller: Sendable, Equatable {
    package var userID: String
    /// Empty if the token names no session.
    package var sessionID: String
    /// Whether the gateway itself issued the token.
    package var isOwn: Bool
    /// The number of the contract that issued an own token; 0 if none did.
    package var contract: UInt8
    /// Set if an outside issuer issued it and its subject stands for an account.
    package var outside: OutsideCaller?

    package init(userID: String, sessionID: String, isOwn: Bool, contract: UInt8 = 0, outside: OutsideCaller? = nil) {
        self.userID = userID
        self.sessionID = sessionID
        self.isOwn = isOwn
        self.contract = contract
        self.outside = outside
    }
}

/// The account that an outside issuer's token stands for.
package struct OutsideCaller: Sendable, Equatable {
    package var account: UUID
    /// The id under which the token can be refused.
    package var tokenID: UUID
    /// `exp`, in seconds since 1970.
    package var expiresAt: Int64

    package init(account: UUID, tokenID: UUID, expiresAt: Int64) {
        self.account = account
        self.tokenID = tokenID
        self.expiresAt = expiresAt
    }
}

/// The answer to a `LocalRequest`. `Content-Length` and `X-Request-Id` are added on the way out, and `Cache-Control: no-store`
/// unless it has one.
package struct LocalResponse: Sendable {
    package var status: Int
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]
    /// The content that follows; then `body` is empty, and the answer has no length.
    package var stream: LocalStream?

    package init(status: Int, contentType: String, body: [UInt8], fields: [(name: String, value: String)] = []) {
        self.status = status
        self.fields = [(name: "Content-Type", value: contentType)] + fields
        self.body = body
    }
}

extension LocalResponse {
    /// A success: what `write` writes, as JSON.
    package static func json(_ status: Int = 200, _ write: (inout JSONWriter) -> Void) -> LocalResponse {
        var out = ByteBuffer(capacity: 512)
        JSONWriter.append(to: &out, write)
        return LocalResponse(status: status, contentType: "application/json; charset=utf-8", body: out.readable.array)
    }
}
