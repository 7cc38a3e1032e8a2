/// An account as its user sees and changes it.
package protocol OwnAccountRecords: Sendable {
}
