package import Wire

/// An SPKI pin for certificate pinning in apps (RFC 7469 §2.4): the hash of a public key, from a certificate or a bare key.
package struct PublicKeyPin: Sendable, Equatable {
    /// The certificate around the key.
    package struct Certificate: Sendable, Equatable {
        /// RFC 4514.
        package let subject: String
        /// In lower case; a `*` stands for one label.
        package let hostNames: [String]
        package let expiresAt: WallTime
    }

    /// SHA-256 of the key's DER SubjectPublicKeyInfo, in base64.
    package let digest: String
    /// nil for a bare key.
    package let certificate: Certificate?

    /// The pins of all certificates and public keys in PEM text, in order. Other blocks, such as private keys, are ignored.
    package static func all(in text: RawSpan) throws(KeyFault) -> [PublicKeyPin] {
        var found: [PublicKeyPin] = []
        for (index, block) in try PEMBlock.all(in: text).enumerated() {
            if let key = try key(in: block, named: "PEM block \(index + 1)") { found.append(key) }
        }
        return found
    }

    /// nil if the block is neither a certificate nor a public key.
    private static func key(in block: PEMBlock, named name: String) throws(KeyFault) -> PublicKeyPin? {
        switch block.label {
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE":
            guard let native = NativeCertificate(der: block.der), let info = native.publicKeyInfo,
                let certificate = Certificate(native)
            else { throw KeyFault("\(name) is no certificate that can be read") }
            return PublicKeyPin(digest: digest(info), certificate: certificate)
        case "PUBLIC KEY", "RSA PUBLIC KEY":
            guard let info = try block.key(named: name)?.publicDER else { throw KeyFault("\(name) is no key that can be read") }
            return PublicKeyPin(digest: digest(info), certificate: nil)
        default: return nil
        }
    }

    private static func digest(_ info: [UInt8]) -> String {
        Base64.encode(Digest.sha256(info.rawBytes).rawBytes, isPadded: true)
    }
}

extension PublicKeyPin.Certificate {
    fileprivate init?(_ native: NativeCertificate) {
        guard let subject = native.subject, let expiresAt = native.expiresAt else { return nil }
        self.init(subject: subject, hostNames: native.hostNames, expiresAt: expiresAt)
    }
}
