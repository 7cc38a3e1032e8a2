package import Wire

/// One refusal, explained for the operator.
package struct ExplainedRefusal: Sendable {
    package let requestID: String
    package let at: WallTime
    /// Empty where the request could not be read, like host and path.
    package let method: String
    package let host: String
    /// Without the query.
    package let path: String
    package let explanation: Explanation

    package init(requestID: String, at: WallTime, method: String, host: String, path: String, explanation: Explanation) {
        self.requestID = requestID
        self.at = at
        self.method = method
        self.host = host
        self.path = path
        self.explanation = explanation
    }
}
