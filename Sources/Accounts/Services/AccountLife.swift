/// The services by which users of all contracts see, change and leave their accounts (`TOLLGATE_ACCOUNT`).
package struct AccountLife: Sendable {
    /// The attributes that users may write.
    package let writable: Set<String>
    package let own: OwnAccount
    package var leaving: Leaving
    package let merges: Merges
    package let appleNotices: AppleNotices
    /// nil without `TOLLGATE_NOTICES`.
    package var notices: Notices?
    /// nil without `TOLLGATE_PASSKEY`.
    package var passkeys: Passkeys?
    /// nil without `TOLLGATE_FACTOR`.
    package var factors: Factors?

    package init(writable: Set<String>, own: OwnAccount, leaving: Leaving, merges: Merges, appleNotices: AppleNotices) {
        self.writable = writable
        self.own = own
        self.leaving = leaving
        self.merges = merges
        self.appleNotices = appleNotices
    }
}
