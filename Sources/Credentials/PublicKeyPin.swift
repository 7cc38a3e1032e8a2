package import Wire

/// The public key of a certificate, or one by itself, as apps pin it (RFC 7469 §2.4).
package struct PinnedKey: Sendable, Equatable {
    /// What a certificate says beside its key.
    package struct Certificate: Sendable, Equatable {
        package let subject: String
        /// In small letters; those with a `*` are for one label in its place.
        package let hostNames: [String]
        package let expiresAt: WallTime
    }

    /// SHA-256 of the key's DER SubjectPublicKeyInfo, in base64.
    package let digest: String
    /// nil for a key by itself.
    package let certificate: Certificate?

    /// Those of all certificates and public keys in PEM text, in order. What else it holds, such as private keys, is passed
    /// over.
    package static func all(in text: RawSpan) throws(KeyFault) -> [PinnedKey] {
        var found: [PinnedKey] = []
        for (index, block) in try PEMBlock.all(in: text).enumerated() {
            if let key = try key(in: block, named: "PEM block \(index + 1)") { found.append(key) }
        }
        return found
    }

    /// nil if the block is none of both.
    private static func key(in block: PEMBlock, named name: String) throws(KeyFault) -> PinnedKey? {
        switch block.label {
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
            guard let native = NativeCertificate(der: block.der), let info = native.publicKeyInfo,
                let certificate = Certificate(native)
            else { throw KeyFault("\(name) is no certificate that can be read") }
            return PinnedKey(digest: digest(info), certificate: certificate)
        case "PUBLIC KEY", "RSA PUBLIC KEY":
            guard let info = try block.key(named: name)?.publicDER else { throw KeyFault("\(name) is no key that can be read") }
            return PinnedKey(digest: digest(info), certificate: nil)
        default: return nil
        }
    }

    private static func digest(_ info: [UInt8]) -> String {
        Base64.encode(Digest.sha256(info.rawBytes).rawBytes, isPadded: true)
    }
}

extension PinnedKey.Certificate {
    fileprivate init?(_ native: NativeCertificate) {
        guard let subject = native.subject, let expiresAt = native.expiresAt else { return nil }
        self.init(subject: subject, hostNames: native.hostNames, expiresAt: expiresAt)
    }
}
