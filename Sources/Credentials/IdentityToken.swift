import Wire

/// JWTs that tell upstreams who calls (`identity=signed`). Their `typ` tells them from access tokens (RFC 8725 §3.11): no
/// `TokenVerifier` accepts one, whatever keys and audiences it trusts.
package enum IdentityToken {
    package static let type: StaticString = "tollgate-identity+jwt"
}

/// JWTs that tell an app what its user has bought, for as long as it is offline. As those above, no `TokenVerifier` accepts one.
package enum EntitlementToken {
    package static let type: StaticString = "tollgate-entitlement+jwt"
}

extension SigningKey {
    /// The entitlement with these claims, which are a JSON object; nil for a shared secret, which no app can have.
    package func entitlementToken(_ claims: RawSpan) throws(KeyFault) -> [UInt8]? {
        algorithm.isSymmetric ? nil : try sign(claims, type: EntitlementToken.type)
    }

    /// The identity token with these claims, which are a JSON object. nil if OpenSSL fails, and for a shared secret: an upstream
    /// that could verify its tokens could also issue them.
    package func identityToken(_ claims: RawSpan) -> [UInt8]? {
        guard !algorithm.isSymmetric else { return nil }
        do throws(KeyFault) { return try sign(claims, type: IdentityToken.type) } catch { return nil }
    }
}
