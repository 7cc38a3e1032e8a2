package import Wire

/// A recent refusal with its explanation, for the admin API.
package struct ExplainedRefusal: Sendable {
    package let requestID: String
    package let at: WallTime
    /// Empty, like host and path, if the request could not be parsed.
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
