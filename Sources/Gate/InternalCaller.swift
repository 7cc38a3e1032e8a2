import Credentials
package import HTTP
package import Wire

/// A trusted service (`TOLLGATE_INTERNAL_<NAME>`), identified by API key, network and/or certificate; all that are
/// configured must match. One without any never matches.
package struct InternalCaller: Sendable {
    package var name: String
    /// SHA-256 of its `X-Internal-Key`, 32 bytes.
    package var keySHA256: [UInt8]?
    /// Networks it may call from; empty for any.
    package var networks: [CIDR]
    /// A DNS name or URI of its client certificate, compared exactly.
    package var certificateName: String?

    package init(name: String, keySHA256: [UInt8]? = nil, networks: [CIDR] = [], certificateName: String? = nil) {
        self.name = name
        self.keySHA256 = keySHA256
        self.networks = networks
        self.certificateName = certificateName
    }

    /// Parses 64 hexadecimal digits.
    package static func digest(hex text: String) -> [UInt8]? {
        let digits = text.utf8.map(\.hexValue)
        guard digits.count == 64 else { return nil }
        var bytes: [UInt8] = []
        for index in stride(from: 0, to: 64, by: 2) {
            guard let high = digits[index], let low = digits[index + 1] else { return nil }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    /// Index of the first of `callers` that matches; -1 for none. A repeated key is ignored. Where `takesSecret` says so, a caller with a
    /// key may send its name and its key as `client_secret_basic` in place of `X-Internal-Key`: then no other matches.
    static func match(
        _ callers: [InternalCaller], _ head: borrowing RequestHead, _ bytes: RawSpan, _ client: ClientAddress,
        _ certificateNames: [String], takesSecret: Bool = false
    ) -> Int {
        var digest = sentDigest(head, bytes)
        let basic = takesSecret && head.authorizationCount == 1 ? BasicCredentials(bytes[head.authorization]) : nil
        // A client authenticates in one way (RFC 6749 §2.3).
        if let basic { digest = digest == nil ? Digest.sha256(basic.secret.rawBytes) : nil }
        var found = -1
        // All are compared, so that the time does not reveal which key nearly matched.
        for (index, caller) in callers.enumerated()
        where caller.matches(digest, client, certificateNames) && caller.isNamed(by: basic) && found < 0 { found = index }
        return found
    }

    private static func sentDigest(_ head: borrowing RequestHead, _ bytes: RawSpan) -> [UInt8]? {
        var digest: [UInt8]?
        for index in 0..<head.fields.count where head.fields[index].known == .xInternalKey {
            guard digest == nil else { return nil }
            digest = Digest.sha256(bytes[head.fields[index].value])
        }
        return digest
    }

    private func isNamed(by basic: BasicCredentials?) -> Bool {
        guard let basic else { return true }
        return keySHA256 != nil && name.utf8.elementsEqual(basic.name)
    }

    private func matches(_ digest: [UInt8]?, _ client: ClientAddress, _ certificateNames: [String]) -> Bool {
        guard keySHA256 != nil || !networks.isEmpty || certificateName != nil else { return false }
        // Compared as bytes; Swift treats canonically equivalent characters as equal.
        if let certificateName, !certificateNames.contains(where: { $0.utf8.elementsEqual(certificateName.utf8) }) { return false }
        if let keySHA256 {
            guard keySHA256.count == 32, let digest else { return false }
            guard Digest.constantTimeEquals(keySHA256.rawBytes, digest.rawBytes) else { return false }
        }
        if networks.isEmpty { return true }
        return client.isCertain && networks.contains { $0.contains(client.address) }
    }
}

/// The client of a request that has not been decided about.
extension Admission {
    /// Whether a peer is a trusted proxy, which names the client of each request.
    package func trusts(_ peer: IPAddress) -> Bool { policy.trustedProxies.contains { $0.contains(peer) } }

    /// The client of a request, as `admit` takes it.
    package func clientAddress(_ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer) -> ClientAddress {
        ClientAddress.resolve(head, bytes, peer: peer, trusted: policy.trustedProxies)
    }

    /// The number of the internal caller that a request is from; nil for none.
    package func internalCaller(_ head: borrowing RequestHead, _ bytes: RawSpan, peer: Peer) -> Int? {
        let caller = InternalCaller.match(
            policy.internals, head, bytes, clientAddress(head, bytes, peer: peer), peer.certificateNames)
        return caller < 0 ? nil : caller
    }
}
