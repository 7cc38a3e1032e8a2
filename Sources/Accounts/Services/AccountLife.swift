/// The services by which users of all contracts see, change and leave their accounts (`TOLLGATE_ACCOUNT`).
package struct AccountLife: Sendable {
    /// The attributes that users may write.
    package let writable: Set<String>
    package let own: OwnAccount

    package init(writable: Set<String>, own: OwnAccount) {
        self.writable = writable
        self.own = own
    }
}
