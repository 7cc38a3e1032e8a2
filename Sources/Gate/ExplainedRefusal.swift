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
    /// The route's name; nil if none matched.
    package let route: String?
    /// The id of the user whose token was accepted.
    package let user: String?
    package let explanation: Explanation

    package init(
        requestID: String, at: WallTime, method: String, host: String, path: String, route: String? = nil, user: String? = nil,
        explanation: Explanation
    ) {
        self.requestID = requestID
        self.at = at
        self.method = method
        self.host = host
        self.path = path
        self.route = route
        self.user = user
        self.explanation = explanation
    }
}

/// The refusals that an operator asks for: all of these that are not nil must fit.
package struct RefusalQuery: Sendable, Equatable {
    package var requestID: String?
    package var route: String?
    /// `RefusalCode.text`.
    package var code: String?
    package var status: UInt16?
    package var user: String?
    /// At most so many, the newest.
    package var limit: Int

    package init(limit: Int) { self.limit = limit }
}

/// The refusals of a worker since an earlier question.
package struct NewRefusals: Sendable {
    /// The newest first.
    package var stories: [ExplainedRefusal]
    /// How many more there were.
    package var skipped: Int
    /// Refusals so far, to ask from next.
    package var count: Int

    package init(stories: [ExplainedRefusal], skipped: Int, count: Int) {
        self.stories = stories
        self.skipped = skipped
        self.count = count
    }
}
