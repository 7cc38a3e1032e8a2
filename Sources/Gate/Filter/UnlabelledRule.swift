/// The rule for elements without a label, the field of their filter (`filter-unlabelled=`).
package enum UnlabelledRule: Sendable, Hashable {
    /// Kept where the filter is a field alone, removed where it is a path.
    case byForm
    case keep
    case drop
    /// It counts as labelled with this tier.
    case tier(Tier)
}
