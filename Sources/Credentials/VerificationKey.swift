import Wire

/// One key that can verify, with the algorithms it may be used for. Immutable, shared by all workers.
package final class VerificationKey: Sendable {
    package let kid: String?
    package let algorithms: AlgorithmSet
    /// Unique in this process: the same material, algorithms and `kid` loaded again have the same serial.
    package let serial: UInt32
    /// The UTF-8 of `kid`, to compare with a token's.
    let kidBytes: [UInt8]?
    let material: KeyMaterial

    /// A shared secret for HMAC: at least as long as the hash (RFC 7518 §3.2), and no PEM text. Without `algorithms`
    /// it serves those it is long enough for; with them it must be long enough for each.
    package convenience init(
        secret: RawSpan, kid: String? = nil, algorithms: AlgorithmSet? = nil, name: String = "the shared secret"
    ) throws(KeyFault) {
        try self.init(
            KeyMaterial(secret: secret.array, named: name), kid: kid, algorithms: algorithms, named: name)
    }

    /// Binds `material` to `algorithms`, each of which it must fit; nil: to all that it fits.
    init(_ material: KeyMaterial, kid: String?, algorithms: AlgorithmSet?, named name: String) throws(KeyFault) {
        let allowed = algorithms ?? material.fitting
        if let misfit = allowed.subtracting(material.fitting).members.first {
            throw KeyFault("\(name) cannot be used for \(misfit.name)\(material.reasonAgainst(misfit))")
        }
        guard !allowed.isEmpty else { throw KeyFault("\(name) is allowed no algorithm") }
        guard let identity = material.identity else { throw KeyFault("\(name) cannot be exported by OpenSSL") }
        self.kid = kid
        self.material = material
        self.algorithms = allowed
        kidBytes = kid.map { Array($0.utf8) }
        serial = KeySerial.of(identity: identity, algorithms: allowed, kid: kidBytes)
    }
}

extension KeyMaterial {
    /// Bytes that tell this material from any other.
    fileprivate var identity: [UInt8]? {
        switch content {
        case .secret(let secret): [0] + secret
        case .rsa(let key), .curve(_, let key), .ed25519(let key): key.publicDER.map { [1] + $0 }
        }
    }

    fileprivate func reasonAgainst(_ algorithm: SigningAlgorithm) -> String {
        guard case .secret(let secret) = content, algorithm.isSymmetric else { return "" }
        return ": it has \(secret.count) bytes and needs at least \(algorithm.hash.byteCount)"
    }
}
