import COpenSSL
package import Wire

/// A certificate to be made for tests and by commands: a gateway that serves issues none.
package struct CertificateDraft: Sendable {
    package var name: String
    package var notBefore: WallTime
    package var notAfter: WallTime
    /// Whether it may issue others.
    package var isAuthority: Bool
    /// Object identifiers of extensions without content.
    package var markers: [String]

    package init(name: String, notBefore: WallTime, notAfter: WallTime, isAuthority: Bool, markers: [String] = []) {
        self.name = name
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.isAuthority = isAuthority
        self.markers = markers
    }

    /// The certificate of `key`'s public half in DER, signed by `issuer`; nil for one that is signed by its own key.
    package func certificate(
        of key: SigningKey, by issuer: (certificate: [UInt8], key: SigningKey)?
    ) throws(KeyFault) -> [UInt8] {
        defer { ERR_clear_error() }
        let fault = KeyFault("OpenSSL could not make the certificate \(name)")
        guard let pointer = unsafe X509_new(), let holder = key.verificationKey.material.native else { throw fault }
        let made = unsafe NativeCertificate(adopting: pointer)
        let signer = issuer.map { NativeCertificate(der: $0.certificate) } ?? made
        guard let signer, let signingKey = (issuer?.key ?? key).verificationKey.material.native, fill(made, holder), extend(made, signer),
            unsafe X509_set_issuer_name(made.pointer, X509_get_subject_name(signer.pointer)) == 1,
            unsafe X509_sign(made.pointer, signingKey.pointer, EVP_sha256()) > 0,
            let der = unsafe encodedDER({ unsafe i2d_X509(made.pointer, $0) })
        else { throw fault }
        return der
    }

    private func fill(_ made: NativeCertificate, _ key: NativeKey) -> Bool {
        let serial = SecureRandom.bytes(8).rawBytes.load64(0) >> 1 | 1
        let subject = unsafe X509_get_subject_name(made.pointer)
        return unsafe X509_set_version(made.pointer, 2) == 1 && X509_set_pubkey(made.pointer, key.pointer) == 1
            && ASN1_INTEGER_set_uint64(X509_get_serialNumber(made.pointer), serial) == 1
            && X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1
            && ASN1_TIME_set(X509_getm_notBefore(made.pointer), time_t(notBefore.seconds)) != nil
            && ASN1_TIME_set(X509_getm_notAfter(made.pointer), time_t(notAfter.seconds)) != nil
    }

    private func extend(_ made: NativeCertificate, _ signer: NativeCertificate) -> Bool {
        var context = unsafe X509V3_CTX()
        unsafe X509V3_set_ctx(&context, signer.pointer, made.pointer, nil, nil, 0)
        var extensions = [
            (NID_basic_constraints, "critical,CA:\(isAuthority ? "TRUE" : "FALSE")"),
            (NID_key_usage, isAuthority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"),
            (NID_subject_key_identifier, "hash"),
        ]
        if signer !== made { extensions.append((NID_authority_key_identifier, "keyid")) }
        for (kind, value) in extensions {
            guard unsafe Self.add(X509V3_EXT_nconf_nid(nil, &context, kind, value), to: made) else { return false }
        }
        return markers.allSatisfy { unsafe Self.add(Self.marker($0), to: made) }
    }

    /// An extension whose content is NULL.
    private static func marker(_ identifier: String) -> OpaquePointer? {
        guard let object = unsafe OBJ_txt2obj(identifier, 1) else { return nil }
        defer { unsafe ASN1_OBJECT_free(object) }
        guard let content = unsafe ASN1_OCTET_STRING_new() else { return nil }
        defer { unsafe ASN1_OCTET_STRING_free(content) }
        guard unsafe ASN1_OCTET_STRING_set(content, [0x05, 0x00], 2) == 1 else { return nil }
        return unsafe X509_EXTENSION_create_by_OBJ(nil, object, 0, content)
    }

    private static func add(_ made: OpaquePointer?, to certificate: NativeCertificate) -> Bool {
        guard let made = unsafe made else { return false }
        defer { unsafe X509_EXTENSION_free(made) }
        return unsafe X509_add_ext(certificate.pointer, made, -1) == 1
    }
}
