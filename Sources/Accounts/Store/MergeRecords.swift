/// Guests that are merged into accounts.
package protocol MergeRecords: Sendable {
}
