import COpenSSL
import Wire

/// Proof that a signature is valid under this key and algorithm. Only `SignatureContexts` creates one.
struct ProvenSignature {
    let key: VerificationKey
    let algorithm: SigningAlgorithm

    fileprivate init(key: VerificationKey, algorithm: SigningAlgorithm) {
        self.key = key
        self.algorithm = algorithm
    }
}

/// OpenSSL's context to verify signatures by one key with one algorithm, created once. One thread at a time.
enum SignatureContext {
    case code(MACContext)
    case digested(DigestVerifier)
    case whole(Ed25519Verifier)

    /// nil if OpenSSL does not take the key for `algorithm`, which must be in `material.fitting`.
    init?(_ algorithm: SigningAlgorithm, _ material: KeyMaterial) {
        switch material.content {
        case .secret(let secret): self = .code(MACContext(key: secret.rawBytes, hash: algorithm.hash))
        case .rsa(let key):
            guard let verifier = DigestVerifier(rsa: key, algorithm) else { return nil }
            self = .digested(verifier)
        case .curve(let curve, let key):
            guard let verifier = DigestVerifier(curve, key, algorithm) else { return nil }
            self = .digested(verifier)
        case .ed25519(let key): self = .whole(Ed25519Verifier(key))
        }
    }

    /// Whether `signature` is valid for `message`. `der` is scratch memory.
    func isValid(
        _ signature: borrowing ByteBuffer, over message: RawSpan, _ digester: inout Digester, _ der: inout ByteBuffer
    ) -> Bool {
        switch self {
        case .code(let context): context.isValid(signature.readable, over: message)
        case .digested(let context): context.isValid(signature.readable, over: message, &digester, &der)
        case .whole(let context): context.isValid(signature.readable, over: message)
        }
    }
}

/// One worker's cache of OpenSSL verification contexts, one for each key and algorithm, created at first use.
struct SignatureContexts: ~Copyable {
    /// Above this the cache is emptied. A trust snapshot has few keys; the bound matters only if they change often.
    private static let maximumContexts = 512

    private var identifiers: [UInt64] = []
    private var contexts: [SignatureContext] = []
    private var digester = Digester()
    private var der = ByteBuffer(capacity: 256)

    /// Verifies `signature` over `input` under `key`; nil if it is invalid or the key does not allow `algorithm` (RFC 8725 §3.1).
    mutating func prove(
        _ signature: borrowing ByteBuffer, over input: RawSpan, _ algorithm: SigningAlgorithm, by key: VerificationKey
    ) -> ProvenSignature? {
        guard key.algorithms.contains(algorithm) else { return nil }
        guard let context = context(algorithm, key) else { return nil }
        guard context.isValid(signature, over: input, &digester, &der) else { return nil }
        return ProvenSignature(key: key, algorithm: algorithm)
    }

    /// Drops the contexts of all other keys.
    mutating func keep(only serials: Set<UInt32>) {
        for index in identifiers.indices.reversed()
        where !serials.contains(UInt32(truncatingIfNeeded: identifiers[index] >> 8)) {
            identifiers.remove(at: index)
            contexts.remove(at: index)
        }
    }

    private mutating func context(_ algorithm: SigningAlgorithm, _ key: VerificationKey) -> SignatureContext? {
        let identifier = UInt64(key.serial) << 8 | UInt64(algorithm.rawValue)
        for index in identifiers.indices where identifiers[index] == identifier { return contexts[index] }
        guard let made = SignatureContext(algorithm, key.material) else { return nil }
        if identifiers.count >= Self.maximumContexts {
            identifiers.removeAll(keepingCapacity: true)
            contexts.removeAll(keepingCapacity: true)
        }
        identifiers.append(identifier)
        contexts.append(made)
        return made
    }
}
