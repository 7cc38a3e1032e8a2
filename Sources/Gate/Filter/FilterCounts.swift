/// What a filter found in one answer. Elements are what it judges: objects that carry the field, and objects that are
/// elements of an array.
package struct FilterCounts: Equatable, Sendable {
    /// Elements that passed.
    package var kept: UInt32 = 0
    /// Elements that were removed. What lay in them is not counted.
    package var dropped: UInt32 = 0
    /// Of both, those without the field.
    package var unlabelled: UInt32 = 0

    package init(kept: UInt32 = 0, dropped: UInt32 = 0, unlabelled: UInt32 = 0) {
        self.kept = kept
        self.dropped = dropped
        self.unlabelled = unlabelled
    }
}
