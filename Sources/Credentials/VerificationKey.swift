import Wire

/// One key that can verify, with the algorithms it may be used for. Immutable, shared by all workers.
package final class VerificationKey: Sendable {
    package let kid: String?
    package let algorithms: AlgorithmSet
    /// Unique in this process: the same material, algorithms and `kid` loaded again have the same serial.
    package let serial: UInt32

    /// A shared secret for HMAC: at least as long as the hash (RFC 7518 §3.2), and no PEM text.
    package convenience init(secret: RawSpan, kid: String? = nil, algorithms: AlgorithmSet = .hmac) throws(KeyFault) {
        throw KeyFault("not built yet")
    }

    init(kid: String?, algorithms: AlgorithmSet, serial: UInt32) {
        self.kid = kid
        self.algorithms = algorithms
        self.serial = serial
    }
}
