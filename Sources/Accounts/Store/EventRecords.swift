/// The events of accounts in the order of their commits, and how far each subscriber has got.
package protocol EventRecords: Sendable {
}
