/// Accounts that are closed, erased or banned, and the tokens of Apple that are revoked then.
package protocol LeavingRecords: Sendable {
}
