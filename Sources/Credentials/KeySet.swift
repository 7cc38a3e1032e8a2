import Wire

/// An issuer's keys.
package struct KeySet: Sendable {
    package let keys: [VerificationKey]
    /// Keys of the document that were left out because they are weak or broken, each with its reason.
    package let refusals: [KeyFault]

    package init(_ keys: [VerificationKey]) {
        self.keys = keys
        refusals = []
    }

    /// A JWK Set (RFC 7517 §5). Keys for other purposes and of unknown kinds are passed over; weak and broken ones are
    /// listed in `refusals`. A document without a single usable key is a fault.
    package init(jwks: RawSpan) throws(KeyFault) { throw KeyFault("not built yet") }

    /// One or more PEM blocks: public keys, private keys (of which the public half is used) or certificates.
    package init(pem: RawSpan, algorithms: AlgorithmSet = .asymmetric) throws(KeyFault) { throw KeyFault("not built yet") }
}
