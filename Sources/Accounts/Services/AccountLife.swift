/// The services by which users of all contracts see, change and leave their accounts (`TOLLGATE_ACCOUNT`).
package struct AccountLife: Sendable {
    /// The attributes that users may write.
    package let writable: Set<String>

    package init(writable: Set<String>) { self.writable = writable }
}
