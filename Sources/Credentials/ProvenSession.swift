package import Wire

/// A session of the gateway whose user has proven the second factor; without a time, one whose proof counts no more.
package struct ProvenSession: Sendable, Hashable {
    /// `sid` of its tokens.
    package let id: UUID
    package let at: WallTime?

    package init(id: UUID, at: WallTime?) {
        self.id = id
        self.at = at
    }
}
