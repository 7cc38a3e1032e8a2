import Wire

/// A key that verifies signatures, and the algorithms it allows. Immutable, shared by all workers.
package final class VerificationKey: Sendable {
    package let kid: String?
    package let algorithms: AlgorithmSet
    /// A number that is unique in this process; the same material, algorithms and `kid` always have the same serial.
    package let serial: UInt32
    /// `kid` in UTF-8, for comparison with a token's.
    let kidBytes: [UInt8]?
    let material: KeyMaterial

    /// A shared secret for HMAC, at least as long as the hash (RFC 7518 §3.2) and no PEM text. With `algorithms` nil it allows
    /// those for which it is long enough; otherwise it must be long enough for each.
    package convenience init(
        secret: RawSpan, kid: String? = nil, algorithms: AlgorithmSet? = nil, name: String = "the shared secret"
    ) throws(KeyFault) {
        try self.init(
            KeyMaterial(secret: secret.array, named: name), kid: kid, algorithms: algorithms, named: name)
    }

    /// A key that allows `algorithms`, each of which must fit `material`; nil: all that fit.
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
    /// Bytes that identify the material, for its serial; nil if OpenSSL cannot export the public key.
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
