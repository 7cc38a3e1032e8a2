/// A fault in a message: the status of the answer to it, and a stable name for logs and metrics.
package struct HTTPFault: Error, Equatable, Hashable, Sendable {
    /// For requests 400, 414, 417, 431, 501 or 505; for responses 502.
    package var status: UInt16
    package var reason: Reason

    package init(_ status: UInt16, _ reason: Reason) {
        self.status = status
        self.reason = reason
    }

    /// A request that is broken in this way.
    package init(_ reason: Reason) {
        self.init(reason.requestStatus, reason)
    }

    /// The same fault found in an answer of an upstream.
    package var ofResponse: HTTPFault { HTTPFault(502, reason) }

    /// Stable, snake_case.
    package var text: StaticString { reason.text }
}

/// Bounds on a message head. Beyond them: 414 for the target, 431 for the rest.
package struct HeadLimits: Sendable, Equatable {
    /// Bytes of the whole head, with its blank line.
    package var headBytes: Int
    /// Field lines; at most what the head's table was made for.
    package var fields: Int
    package var targetBytes: Int

    package init(headBytes: Int = 32768, fields: Int = 100, targetBytes: Int = 8192) {
        self.headBytes = headBytes
        self.fields = fields
        self.targetBytes = targetBytes
    }
}

/// The outcome of parsing a head.
package enum HeadOutcome: Equatable, Sendable {
    /// No fault so far; the head has not ended.
    case incomplete
    case complete
    /// The connection cannot be understood any further.
    case invalid(HTTPFault)
}
