/// Counts of one filtered answer. An element is an object that has the tier field, or that is an element of an array.
package struct FilterCounts: Equatable, Sendable {
    /// Elements that passed.
    package var kept: UInt32 = 0
    /// Elements that were removed; elements inside them are not counted.
    package var dropped: UInt32 = 0
    /// Elements of both kinds without the field.
    package var unlabelled: UInt32 = 0
    /// Elements that were removed for want of the field.
    package var droppedUnlabelled: UInt32 = 0

    package init(kept: UInt32 = 0, dropped: UInt32 = 0, unlabelled: UInt32 = 0, droppedUnlabelled: UInt32 = 0) {
        self.kept = kept
        self.dropped = dropped
        self.unlabelled = unlabelled
        self.droppedUnlabelled = droppedUnlabelled
    }

    /// Counts an element without the field that was removed.
    mutating func dropUnlabelled() {
        dropped &+= 1
        unlabelled &+= 1
        droppedUnlabelled &+= 1
    }
}
