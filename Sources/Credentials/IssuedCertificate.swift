import COpenSSL
package import Wire

/// A certificate that an authority has issued for one name, with the chain behind it.
package struct IssuedCertificate: Sendable, Equatable {
    /// As the authority sent it: the certificate, then the intermediate ones.
    package let pem: [UInt8]
    package let startsAt: WallTime
    package let expiresAt: WallTime
    /// In hexadecimal digits.
    package let serial: String
    /// Its name in questions about its renewal (RFC 9773 §4.1); nil if it does not name its issuer's key.
    package let renewalID: String?
    /// The common name of the chain's root.
    package let root: String?
    private let publicKey: [UInt8]

    /// nil for text that does not begin with a certificate, and for one that no time is known of.
    package init?(pem: [UInt8]) {
        // Text that is no PEM holds no certificate.
        let blocks = try? PEMBlock.all(in: pem.rawBytes)
        let chain = (blocks ?? []).compactMap { $0.label == "CERTIFICATE" ? NativeCertificate(der: $0.der) : nil }
        guard let leaf = chain.first, let last = chain.last, let startsAt = leaf.beginsAt, let expiresAt = leaf.expiresAt,
            startsAt < expiresAt, let publicKey = leaf.publicKeyInfo
        else { return nil }
        (self.pem, self.startsAt, self.expiresAt, self.publicKey) = (pem, startsAt, expiresAt, publicKey)
        let serial = leaf.serial
        self.serial = serial.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
        renewalID = leaf.authorityKeyID.map { Base64URL.encode($0.rawBytes) + "." + Base64URL.encode(serial.rawBytes) }
        root = last.issuerName
    }

    /// Whether it is for this key.
    package func belongs(to key: SigningKey) -> Bool { key.verificationKey.material.native?.publicDER == publicKey }
}

/// A request for a certificate (PKCS #10, RFC 2986).
package enum CertificateRequest {
    /// The request in DER for names, each a host name or an address, and the holder's key.
    package static func der(names: [String], key: SigningKey) throws(KeyFault) -> [UInt8] {
        defer { ERR_clear_error() }
        let fault = KeyFault("OpenSSL could not make the request for \(names.joined(separator: ", "))")
        guard let holder = key.verificationKey.material.native, let request = unsafe X509_REQ_new() else { throw fault }
        defer { unsafe X509_REQ_free(request) }
        var context = unsafe X509V3_CTX()
        unsafe X509V3_set_ctx(&context, nil, nil, request, nil, 0)
        let text = CertificateDraft.alternatives(names)
        guard let alternatives = unsafe X509V3_EXT_nconf_nid(nil, &context, NID_subject_alt_name, text) else { throw fault }
        defer { unsafe X509_EXTENSION_free(alternatives) }
        let extensions = unsafe OPENSSL_sk_new_null()
        defer { unsafe OPENSSL_sk_free(extensions) }
        guard unsafe OPENSSL_sk_push(extensions, UnsafeRawPointer(alternatives)) == 1,
            unsafe X509_REQ_set_version(request, 0) == 1 && X509_REQ_set_pubkey(request, holder.pointer) == 1,
            unsafe X509_REQ_add_extensions(request, extensions) == 1, unsafe X509_REQ_sign(request, holder.pointer, EVP_sha256()) > 0,
            let der = unsafe encodedDER({ unsafe i2d_X509_REQ(request, $0) })
        else { throw fault }
        return der
    }
}
