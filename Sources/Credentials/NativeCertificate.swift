import COpenSSL
import Wire

/// Owner of an OpenSSL `X509`.
@safe final class NativeCertificate {
    @unsafe let pointer: OpaquePointer

    /// Takes ownership of the reference.
    @unsafe init(adopting pointer: OpaquePointer) { unsafe self.pointer = pointer }

    /// Parses DER; nil if it does not begin with a certificate. The trust settings that OpenSSL appends are ignored.
    convenience init?(der: [UInt8]) {
        let read = unsafe der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var next = bytes.baseAddress
            return unsafe d2i_X509(nil, &next, bytes.count)
        }
        guard let read = unsafe read else {
            ERR_clear_error()
            return nil
        }
        unsafe self.init(adopting: read)
    }

    deinit { unsafe X509_free(pointer) }

    /// The certificate's SubjectPublicKeyInfo in DER, byte for byte.
    var publicKeyInfo: [UInt8]? {
        unsafe encodedDER { unsafe i2d_X509_PUBKEY(X509_get_X509_PUBKEY(pointer), $0) }
    }

    /// The subject as `CN=example.org,O=Example` (RFC 4514), control and non-ASCII characters escaped.
    var subject: String? {
        guard let stream = NativeStream(RawSpan()) else { return nil }
        guard unsafe X509_NAME_print_ex(stream.pointer, X509_get_subject_name(pointer), 0, copenssl_name_flags()) >= 0 else {
            ERR_clear_error()
            return nil
        }
        return stream.rest().rawBytes.text
    }

    /// The DNS names of the subject alternative name, in lower case (RFC 5280 §4.2.1.6). Invalid host names are left out.
    var hostNames: [String] {
        guard let names = unsafe OpaquePointer(X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil)) else {
            ERR_clear_error()
            return []
        }
        defer { unsafe GENERAL_NAMES_free(names) }
        return (0..<max(0, unsafe OPENSSL_sk_num(names))).compactMap { index in
            unsafe OPENSSL_sk_value(names, index).flatMap { unsafe Self.hostName($0.assumingMemoryBound(to: GENERAL_NAME.self)) }
        }
    }

    private static func hostName(_ name: UnsafePointer<GENERAL_NAME>) -> String? {
        var kind: Int32 = 0
        guard let value = unsafe GENERAL_NAME_get0_value(name, &kind), kind == GEN_DNS else { return nil }
        let text = unsafe value.assumingMemoryBound(to: ASN1_STRING.self)
        let bytes = unsafe [UInt8](UnsafeBufferPointer(start: ASN1_STRING_get0_data(text), count: Int(ASN1_STRING_length(text))))
        guard !bytes.isEmpty, bytes.allSatisfy(\.standsInHostNames) else { return nil }
        return String(decoding: bytes.map(\.lowercasedASCII), as: UTF8.self)
    }

    /// `notBefore`.
    var beginsAt: WallTime? { unsafe Self.time(X509_get0_notBefore(pointer)) }

    /// `notAfter`.
    var expiresAt: WallTime? { unsafe Self.time(X509_get0_notAfter(pointer)) }

    /// The issuer's common name.
    var issuerName: String? {
        var name = [CChar](repeating: 0, count: 256)
        let count = unsafe X509_NAME_get_text_by_NID(X509_get_issuer_name(pointer), NID_commonName, &name, Int32(name.count))
        guard count > 0 else { return nil }
        return String(decoding: name.prefix(Int(count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// The serial number as the content of its DER.
    var serial: [UInt8] {
        let bytes = unsafe Self.bytes(X509_get0_serialNumber(pointer)) ?? []
        return bytes.first.map { $0 >= 0x80 } == true ? [0] + bytes : bytes
    }

    /// The identifier of the issuer's key; nil without one.
    var authorityKeyID: [UInt8]? { unsafe Self.bytes(X509_get0_authority_key_id(pointer)) }

    private static func bytes(_ text: UnsafePointer<ASN1_STRING>?) -> [UInt8]? {
        guard let text = unsafe text, let start = unsafe ASN1_STRING_get0_data(text) else { return nil }
        return unsafe [UInt8](UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(text))))
    }

    private static func time(_ time: UnsafePointer<ASN1_TIME>?) -> WallTime? {
        guard let epoch = unsafe ASN1_TIME_set(nil, 0) else { return nil }
        defer { unsafe ASN1_TIME_free(epoch) }
        var (days, seconds): (Int32, Int32) = (0, 0)
        guard let time = unsafe time, unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else {
            ERR_clear_error()
            return nil
        }
        return WallTime(seconds: Int64(days) * 86_400 + Int64(seconds))
    }
}

extension UInt8 {
    /// Letters, digits, `-`, `.`, `_` and the `*` of a wildcard.
    fileprivate var standsInHostNames: Bool { isASCIILetter || isASCIIDigit || [0x2D, 0x2E, 0x5F, 0x2A].contains(self) }
}
