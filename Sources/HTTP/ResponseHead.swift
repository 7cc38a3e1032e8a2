package import Wire

/// The head of one response of an upstream. Reused like `RequestHead`.
package struct ResponseHead: ~Copyable {
    package internal(set) var fields: FieldTable
    /// 100 to 999.
    package internal(set) var status = 0
    package internal(set) var reason = Slice()
    /// 0 or 1.
    package internal(set) var minorVersion: UInt8 = 1
    package internal(set) var framing = BodyFraming.none
    /// What `Content-Length` says, also where it does not frame the message (HEAD, 304).
    package internal(set) var contentLength: UInt64?
    /// Whether the connection may carry another exchange once the content has ended.
    package internal(set) var keepAlive = false
    package internal(set) var length = 0

    package init(fields: Int = 100) {
        self.fields = FieldTable(capacity: fields)
    }

    /// 1xx: another head follows.
    package var isInterim: Bool { status < 200 }

    /// Parses the head at the start of `bytes`, the answer to a `requestMethod` request.
    package mutating func parse(_ bytes: RawSpan, requestMethod: Method, limits: HeadLimits) -> HeadOutcome {
        .incomplete
    }
}
