import COpenSSL
import Glibc
import System
import Wire

/// A server certificate with its chain, and its private key, in PEM.
package struct TLSCertificatePair: Sendable, Hashable {
    /// The files, or what stands for them in messages.
    package let certificate: String
    package let key: String
    /// nil for files that are read when they are needed.
    private var texts: [[UInt8]]?
    /// Whether it was issued for an address, not for a host name.
    let isForAddress: Bool

    package init(certificate: String, key: String) {
        (self.certificate, self.key, texts, isForAddress) = (certificate, key, nil, false)
    }

    /// Without files.
    package init(name: String, certificate: [UInt8], key: [UInt8]) {
        (self.certificate, self.key, texts) = ("the certificate of \(name)", "the key of \(name)", [certificate, key])
        isForAddress = IPAddress(parsing: name) != nil
    }

    /// The same with the texts of its files as they are now.
    func withTexts() throws(TLSFault) -> Self {
        var pair = self
        pair.texts = [try certificateText(), try keyText()]
        return pair
    }

    /// Reads the file, unless it has been read.
    package func certificateText() throws(TLSFault) -> [UInt8] {
        if let texts { texts[0] } else { try TLSCertificate.read(certificate) }
    }

    fileprivate func keyText() throws(TLSFault) -> [UInt8] { if let texts { texts[1] } else { try TLSCertificate.read(key) } }
}

/// A certificate pair, read and checked.
@safe
struct TLSCertificate: ~Copyable {
    /// The server's certificate, and the intermediate ones.
    let leaf: OpaquePointer
    let chain: [OpaquePointer]
    let key: OpaquePointer
    /// Problem with its validity period, if any.
    let warning: String?

    private init(leaf: OpaquePointer, chain: [OpaquePointer], key: OpaquePointer, warning: String?) {
        unsafe self.leaf = unsafe leaf
        unsafe self.chain = unsafe chain
        unsafe self.key = unsafe key
        self.warning = warning
    }

    static func read(_ pair: TLSCertificatePair, now: WallTime) throws(TLSFault) -> TLSCertificate {
        let certificates = try unsafe Self.certificates(in: pair.certificateText(), pair.certificate)
        guard let leaf = unsafe certificates.first else {
            throw TLSFault(
                "\(pair.certificate) holds no certificate", right: "it should be PEM text with -----BEGIN CERTIFICATE-----")
        }
        let key: OpaquePointer
        do throws(TLSFault) {
            unsafe key = try Self.key(in: pair.keyText(), pair.key)
        } catch {
            unsafe certificates.forEach { unsafe X509_free($0) }
            throw error
        }
        let belongs = unsafe X509_check_private_key(leaf, key) == 1
        let certificate = unsafe TLSCertificate(
            leaf: leaf, chain: Array(certificates.dropFirst()), key: key,
            warning: warning(leaf, pair.certificate, now))
        guard belongs else {
            TLSErrors.clear()
            throw TLSFault(
                "the key in \(pair.key) does not belong to the certificate in \(pair.certificate)",
                right: "give the key that the certificate was made with")
        }
        return certificate
    }

    /// Has `context` show it, with its chain; false if OpenSSL takes none such.
    func install(in context: OpaquePointer) -> Bool {
        var works = unsafe SSL_CTX_use_certificate(context, leaf) == 1
        // swift-format-ignore
        for unsafe link in unsafe chain where works { works = unsafe tls_add_chain(context, link) == 1 }
        return unsafe works && SSL_CTX_use_PrivateKey(context, key) == 1
    }

    deinit {
        unsafe X509_free(leaf)
        unsafe chain.forEach { unsafe X509_free($0) }
        unsafe EVP_PKEY_free(key)
    }

    /// Certificates of a PEM file; the caller frees them.
    static func certificates(_ path: String) throws(TLSFault) -> [OpaquePointer] { unsafe try certificates(in: read(path), path) }

    /// Those of a PEM text, which comes from `path`.
    private static func certificates(in text: [UInt8], _ path: String) throws(TLSFault) -> [OpaquePointer] {
        var found: [OpaquePointer] = unsafe []
        unsafe withPEM(text) { bio in
            while let certificate = unsafe PEM_read_bio_X509(bio, nil, nil, nil) { unsafe found.append(certificate) }
        }
        // The queue has the end of the file, or the position of a syntax error.
        let code = TLSErrors.take()
        let isAtEnd = tls_error_is_pem_end(code) == 1
        if !isAtEnd {
            unsafe found.forEach { unsafe X509_free($0) }
            throw TLSFault("\(path) holds a broken certificate (\(TLSErrors.text(code)))", right: "it should be PEM text")
        }
        return unsafe found
    }

    /// Lists of revoked certificates (CRLs) of a file, in DER one and in PEM one or more; the caller frees them.
    static func revocationLists(_ path: String) throws(TLSFault) -> [OpaquePointer] {
        let bytes = try read(path, limit: 64 << 20)
        var found: [OpaquePointer] = unsafe []
        unsafe withPEM(bytes) { bio in
            while let list = unsafe PEM_read_bio_X509_CRL(bio, nil, nil, nil) { unsafe found.append(list) }
        }
        let code = TLSErrors.take()
        if unsafe found.isEmpty {
            unsafe withPEM(bytes) { bio in
                if let list = unsafe d2i_X509_CRL_bio(bio, nil) { unsafe found.append(list) }
            }
            TLSErrors.clear()
        }
        if unsafe !found.isEmpty && (tls_error_is_pem_end(code) == 1) { return unsafe found }
        unsafe found.forEach { unsafe X509_CRL_free($0) }
        throw TLSFault(
            "\(path) holds no list of revoked certificates, or a broken one",
            right: "it should be DER, or PEM text with -----BEGIN X509 CRL-----")
    }

    /// A distinguished name on one line (RFC 2253).
    static func name(_ name: OpaquePointer?) -> String {
        guard let bio = unsafe BIO_new(BIO_s_mem()) else { return "" }
        defer { unsafe BIO_free(bio) }
        _ = unsafe X509_NAME_print_ex(bio, name, 0, copenssl_name_flags())
        var text = [UInt8](repeating: 0, count: 512)
        let count = unsafe BIO_read(bio, &text, Int32(text.count))
        return String(decoding: text.prefix(Int(max(0, count))), as: UTF8.self)
    }

    static func time(_ time: UnsafePointer<ASN1_TIME>?) -> WallTime? {
        var parts = unsafe tm()
        guard unsafe time != nil, unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return nil }
        return unsafe WallTime(seconds: Int64(timegm(&parts)))
    }

    private static func key(in text: [UInt8], _ path: String) throws(TLSFault) -> OpaquePointer {
        var key: OpaquePointer?
        var asked = false
        unsafe withPEM(text) { bio in
            unsafe withUnsafeMutablePointer(to: &asked) { asked in
                unsafe key = PEM_read_bio_PrivateKey(
                    bio, nil,
                    { _, _, _, asked in
                        unsafe asked?.assumingMemoryBound(to: Bool.self).pointee = true
                        return -1
                    }, asked)
            }
        }
        let reason = TLSErrors.takeText()
        if let key = unsafe key { return unsafe key }
        if asked {
            throw TLSFault(
                "the key in \(path) is encrypted", right: "give it without a passphrase (openssl pkey -in \(path) -out FILE)")
        }
        throw TLSFault(
            "\(path) holds no private key (\(reason))", right: "it should be PEM text with -----BEGIN PRIVATE KEY-----")
    }

    fileprivate static func read(_ path: String, limit: Int = 1 << 20) throws(TLSFault) -> [UInt8] {
        do throws(SystemFault) {
            return try FileBytes.read(path, limit: limit)
        } catch {
            throw TLSFault(error.description)
        }
    }

    private static func withPEM(_ bytes: [UInt8], _ body: (OpaquePointer) -> Void) {
        TLSErrors.clear()
        unsafe bytes.withUnsafeBytes { bytes in
            // An empty array may have no address, which OpenSSL does not accept.
            let start = unsafe bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1)
            guard let bio = unsafe BIO_new_mem_buf(start, Int32(bytes.count)) else { return }
            unsafe body(bio)
            unsafe BIO_free(bio)
        }
    }

    private static func warning(_ leaf: OpaquePointer, _ path: String, _ now: WallTime) -> String? {
        var seconds = Int(now.seconds)
        if unsafe X509_cmp_time(X509_get0_notAfter(leaf), &seconds) == -1 {
            return "the certificate in \(path) expired at \(unsafe text(X509_get0_notAfter(leaf)))"
        }
        if unsafe X509_cmp_time(X509_get0_notBefore(leaf), &seconds) == 1 {
            return "the certificate in \(path) is valid only from \(unsafe text(X509_get0_notBefore(leaf)))"
        }
        return nil
    }

    private static func text(_ time: UnsafePointer<ASN1_TIME>?) -> String {
        unsafe self.time(time).map(ISO8601.text) ?? "an unreadable time"
    }
}
