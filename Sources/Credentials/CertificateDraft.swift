import COpenSSL
package import Wire

/// A certificate to be made: for tests and by commands, and by a gateway that proves to a certificate authority that it serves a name.
package struct CertificateDraft: Sendable {
    package var name: String
    package var notBefore: WallTime
    package var notAfter: WallTime
    /// Whether it may issue others.
    package var isAuthority: Bool
    /// Object identifiers of extensions without content.
    package var markers: [String]
    /// Host names and IP addresses that it is for.
    package var names: [String] = []
    /// The SHA-256 of the key authorization, by which it proves to a certificate authority who serves the name (RFC 8737 §3).
    package var acmeDigest: [UInt8]?

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

    /// The certificate in PEM, signed by its own key.
    package func selfSignedPEM(of key: SigningKey) throws(KeyFault) -> [UInt8] {
        let der = try certificate(of: key, by: nil)
        let base64 = Array(Base64.encode(der.rawBytes, isPadded: true).utf8)
        var lines = Array("-----BEGIN CERTIFICATE-----\n".utf8)
        for start in stride(from: 0, to: base64.count, by: 64) {
            lines += base64[start..<min(start + 64, base64.count)]
            lines.append(UInt8(ascii: "\n"))
        }
        return lines + "-----END CERTIFICATE-----\n".utf8
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

    private func extend(_ certificate: NativeCertificate, _ signer: NativeCertificate) -> Bool {
        var context = unsafe X509V3_CTX()
        unsafe X509V3_set_ctx(&context, signer.pointer, certificate.pointer, nil, nil, 0)
        var extensions = [
            (NID_basic_constraints, "critical,CA:\(isAuthority ? "TRUE" : "FALSE")"),
            (NID_key_usage, isAuthority ? "critical,keyCertSign,cRLSign" : "critical,digitalSignature"),
            (NID_subject_key_identifier, "hash"),
        ]
        if signer !== certificate { extensions.append((NID_authority_key_identifier, "keyid")) }
        if !names.isEmpty { extensions.append((NID_subject_alt_name, Self.alternatives(names))) }
        for (kind, value) in extensions {
            guard unsafe Self.add(X509V3_EXT_nconf_nid(nil, &context, kind, value), to: certificate) else { return false }
        }
        if let digest = acmeDigest {
            // The digest as an OCTET STRING.
            let made = unsafe Self.custom("1.3.6.1.5.5.7.1.31", [0x04, UInt8(digest.count)] + digest, isCritical: true)
            guard unsafe Self.add(made, to: certificate) else { return false }
        }
        return markers.allSatisfy { unsafe Self.add(Self.custom($0, [0x05, 0x00]), to: certificate) }
    }

    /// OpenSSL's text of a subject alternative name. The names must be host names or addresses.
    static func alternatives(_ names: [String]) -> String {
        names.map { IPAddress(parsing: $0) == nil ? "DNS:\($0)" : "IP:\($0)" }.joined(separator: ",")
    }

    /// An extension with this content in DER.
    private static func custom(_ identifier: String, _ der: [UInt8], isCritical: Bool = false) -> OpaquePointer? {
        guard let object = unsafe OBJ_txt2obj(identifier, 1) else { return nil }
        defer { unsafe ASN1_OBJECT_free(object) }
        guard let content = unsafe ASN1_OCTET_STRING_new() else { return nil }
        defer { unsafe ASN1_OCTET_STRING_free(content) }
        let isSet = unsafe der.withUnsafeBufferPointer { unsafe ASN1_OCTET_STRING_set(content, $0.baseAddress, Int32($0.count)) == 1 }
        guard isSet else { return nil }
        return unsafe X509_EXTENSION_create_by_OBJ(nil, object, isCritical ? 1 : 0, content)
    }

    private static func add(_ made: OpaquePointer?, to certificate: NativeCertificate) -> Bool {
        guard let made = unsafe made else { return false }
        defer { unsafe X509_EXTENSION_free(made) }
        return unsafe X509_add_ext(certificate.pointer, made, -1) == 1
    }
}
