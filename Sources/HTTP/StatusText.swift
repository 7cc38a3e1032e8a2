/// The reason phrases of status codes (IANA registry).
package enum StatusText {
    /// The phrase of `status`; empty for one that is not registered.
    package static func reason(_ status: Int) -> StaticString { "" }
}
