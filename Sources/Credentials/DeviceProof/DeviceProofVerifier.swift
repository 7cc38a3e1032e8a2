package import Wire

/// Verifier of proofs of possession (RFC 9449 §4.3). One for each worker or call: it keeps the keys of recent proofs and its memory.
package struct DeviceProofVerifier: ~Copyable {
    /// The maximum length of a proof in bytes, and of its `jti`.
    package static let maximumBytes = 4_096
    private static let maximumTokenIDBytes = 256
    /// How far `iat` may be in the future, whatever the leeway of tokens.
    private static let maximumSkewSeconds: Int64 = 60

    private var header = JSONMembers()
    private var jwk = JSONMembers()
    private var claims = JSONMembers()
    private var signature = ByteBuffer()
    private var scratch = ByteBuffer()
    private var digester = Digester()
    private var keys = ProofKeys()

    package init() {}

    /// The keys that it keeps.
    var keptKeys: Int { keys.count }

    /// Verifies a proof, which may be any bytes, for a request with `method` to `url`. `accessToken` is the token that it comes with, if
    /// any, and `owner` the key that it must be by: another key is refused before any signature is looked at.
    package mutating func verify(
        _ proof: RawSpan, method: RawSpan, url: borrowing ProofURL, accessToken: RawSpan?, owner: KeyThumbprint? = nil, now: WallTime,
        skewSeconds: Int64
    ) -> Result<DeviceProof, DeviceProofFault> {
        do throws(DeviceProofFault) {
            let parts = try load(proof)
            let issuedAt = try checkTime(now, skewSeconds)
            try checkRequest(method, url)
            if let accessToken { try check(accessToken) }
            let key = try key(proof[parts.header])
            guard owner == nil || owner == key.thumbprint else { throw .otherKey }
            guard key.context.isValid(signature, over: proof[parts.signed], &digester, &scratch) else { throw .badSignature }
            keys.keep(key)
            return .success(
                DeviceProof(
                    thumbprint: key.thumbprint, issuedAt: issuedAt, tokenIDDigest: try tokenIDDigest(key.thumbprint), nonce: nonce))
        } catch {
            return .failure(error)
        }
    }

    private mutating func load(_ proof: RawSpan) throws(DeviceProofFault) -> TokenParts {
        do throws(TokenFault) {
            let parts = try TokenParts(proof, maximumBytes: Self.maximumBytes)
            signature.removeAll()
            guard Base64URL.decode(proof[parts.signature], into: &signature) else { throw .malformed }
            do throws(JSONMembers.Fault) { try claims.load(base64URL: proof[parts.payload]) } catch { throw TokenFault(error) }
            return parts
        } catch {
            throw .malformed
        }
    }

    private func checkTime(_ now: WallTime, _ skewSeconds: Int64) throws(DeviceProofFault) -> Int64 {
        guard case .number(let slice)? = claims["iat"], let issuedAt = claims.floor(slice) else { throw .malformed }
        let latest = now.seconds + min(skewSeconds, Self.maximumSkewSeconds)
        guard issuedAt <= latest, issuedAt >= now.seconds - DeviceProof.maximumAgeSeconds else { throw .stale }
        return issuedAt
    }

    private mutating func checkRequest(_ method: RawSpan, _ url: borrowing ProofURL) throws(DeviceProofFault) {
        guard case .string(let name)? = claims["htm"], case .string(let address)? = claims["htu"] else { throw .malformed }
        guard claims.text(name, equals: method) else { throw .wrongMethod }
        scratch.removeAll()
        claims.append(address, to: &scratch)
        guard url.matches(scratch.readable) else { throw .wrongURL }
    }

    private mutating func check(_ token: RawSpan) throws(DeviceProofFault) {
        guard case .string(let hash)? = claims["ath"] else { throw .wrongToken }
        scratch.removeAll()
        digester.thumbprint(token).append(base64URLTo: &scratch)
        guard claims.text(hash, equals: scratch.readable) else { throw .wrongToken }
    }

    /// The key of a header in base64url. Proofs of one device have the same header, so an equal one is not read again.
    private mutating func key(_ letters: RawSpan) throws(DeviceProofFault) -> ProofKey {
        let digest = digester.thumbprint(letters)
        if let known = keys.find(digest) { return known }
        do throws(JSONMembers.Fault) { try header.load(base64URL: letters) } catch { throw .malformed }
        guard case .string(let type)? = header["typ"], header.text(type, equals: ("dpop+jwt" as StaticString).rawBytes) else {
            throw .wrongType
        }
        let algorithm: SigningAlgorithm
        do throws(TokenFault) {
            algorithm = try TokenHeader.algorithm(header)
            try TokenHeader.refuseExtensions(header)
        } catch {
            throw error == .criticalExtension ? .wrongType : .algorithm
        }
        guard DeviceProof.algorithms.contains(algorithm) else { throw .algorithm }
        guard case .object(let slice)? = header["jwk"] else { throw .badKey }
        do throws(JSONMembers.Fault) { try jwk.load(slice, of: header) } catch { throw .badKey }
        guard let material = JWK.senderKey(jwk, for: algorithm), let key = ProofKey(digest, algorithm, material) else { throw .badKey }
        return key
    }

    private mutating func tokenIDDigest(_ thumbprint: KeyThumbprint) throws(DeviceProofFault) -> UInt128 {
        guard case .string(let id)? = claims["jti"] else { throw .malformed }
        scratch.removeAll()
        thumbprint.append(to: &scratch)
        let start = scratch.count
        claims.append(id, to: &scratch)
        guard (1...Self.maximumTokenIDBytes).contains(scratch.count - start) else { throw .malformed }
        return digester.thumbprint(scratch).high
    }

    private var nonce: ProofNonce? {
        mutating get {
            guard case .string(let text)? = claims["nonce"] else { return nil }
            scratch.removeAll()
            claims.append(text, to: &scratch)
            return ProofNonce(scratch.readable)
        }
    }
}

/// The key of a proof's header, ready to verify.
struct ProofKey {
    /// Of the whole header.
    fileprivate let digest: KeyThumbprint
    let thumbprint: KeyThumbprint
    let context: SignatureContext

    /// The most bits of an RSA modulus. Senders choose their keys, and larger ones only cost the gateway time.
    private static let maximumBits = 4_096

    fileprivate init?(_ digest: KeyThumbprint, _ algorithm: SigningAlgorithm, _ material: KeyMaterial) {
        if case .rsa(let key) = material.content, key.bits > Self.maximumBits { return nil }
        guard let text = RequiredMembers(material)?.thumbprint, let thumbprint = text.withRawBytes({ KeyThumbprint(base64url: $0) }),
            let context = SignatureContext(algorithm, material)
        else { return nil }
        self.digest = digest
        self.thumbprint = thumbprint
        self.context = context
    }
}

/// The keys of recent valid proofs by the digest of their header, in two generations: when the young one is full, it becomes the old one,
/// and the previous old one is dropped.
private struct ProofKeys {
    private static let generationSize = 2_048

    private var young: [KeyThumbprint: ProofKey] = [:]
    private var old: [KeyThumbprint: ProofKey] = [:]

    var count: Int { young.count + old.count }

    func find(_ digest: KeyThumbprint) -> ProofKey? { young[digest] ?? old[digest] }

    mutating func keep(_ key: ProofKey) {
        guard young[key.digest] == nil else { return }
        if young.count >= Self.generationSize {
            old = young
            young.removeAll()
        }
        young[key.digest] = key
    }
}
