import COpenSSL
import Wire

extension KeyMaterial {
    /// Generates a key for `algorithm`: RSA with 2,048 bits, a secret as long as the hash, or a point on the algorithm's curve.
    static func generate(for algorithm: SigningAlgorithm) throws(KeyFault) -> Self {
        let name = "the new key"
        switch algorithm.family {
        case .hmac:
            return try Self(secret: SecureRandom.bytes(algorithm.hash.byteCount), named: name)
        case .rsaPKCS1, .rsaPSS:
            let key = unsafe try NativeKey.generate("RSA") { unsafe EVP_PKEY_CTX_set_rsa_keygen_bits($0, 2048) }
            return try Self(key, named: name)
        case .ecdsa:
            guard let curve = EllipticCurve.allCases.first(where: { $0.algorithm == algorithm }) else {
                throw KeyFault("\(algorithm.name) has no curve")
            }
            let key = unsafe try NativeKey.generate("EC") {
                unsafe EVP_PKEY_CTX_set_group_name($0, curve.nativeName)
            }
            return try Self(key, named: name)
        case .ed25519:
            return try Self(unsafe NativeKey.generate("ED25519") { _ in 1 }, named: name)
        }
    }
}

extension NativeKey {
    /// Generates a key pair of OpenSSL's type `type`; `configure` sets its parameters and returns 1.
    fileprivate static func generate(
        _ type: String, _ configure: (OpaquePointer) -> Int32
    ) throws(KeyFault) -> NativeKey {
        defer { ERR_clear_error() }
        guard let context = unsafe EVP_PKEY_CTX_new_from_name(nil, type, nil) else { throw KeyFault("no \(type) keys") }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard unsafe EVP_PKEY_keygen_init(context) == 1, unsafe configure(context) == 1,
            unsafe EVP_PKEY_generate(context, &key) == 1, let key = unsafe key
        else { throw KeyFault("OpenSSL could not make a new \(type) key") }
        return unsafe NativeKey(adopting: key)
    }
}
