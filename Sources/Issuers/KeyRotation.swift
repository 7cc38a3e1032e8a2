package import Credentials
package import Storage
package import Wire

extension KeyStore {
    /// Rotates the plan's signing keys. `onChange` is called after each write that other gateways must read. Blocks: with shared keys for
    /// 3 s if the next key is younger than a minute, as other gateways may not have read it.
    package static func rotate(
        _ plan: IssuersPlan, clockSkewSeconds: Int64, now: WallTime, onChange: @escaping ChangeNotice
    ) throws(KeyStoreFault) -> SigningKeyRing {
        guard plan.ownSecret == nil else {
            throw KeyStoreFault(description: "own tokens are signed with TOLLGATE_JWT_SECRET, change the secret to rotate it")
        }
        if let shared = SharedKeys(plan, onChange: onChange) {
            return try shared.rotate(to: plan.algorithm, clockSkewSeconds: clockSkewSeconds, now: now)
        }
        return try KeyStore(dataDirectory: plan.dataDirectory).rotate(
            to: plan.algorithm, clockSkewSeconds: clockSkewSeconds, now: now)
    }
}
