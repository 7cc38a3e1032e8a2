import COpenSSL
import Wire

/// One block of PEM text (RFC 7468) with its content decoded.
struct PEMBlock {
    /// What follows `BEGIN`.
    let label: String
    let der: [UInt8]
    /// Whether it is encrypted in the old style, with a header inside the block (RFC 1421).
    let hasHeader: Bool

    /// Every block of `text` that may hold a key, in order. What stands between them is passed over, and so are the
    /// parameters that `openssl ecparam` writes before a key that has them too.
    static func all(in text: RawSpan) throws(KeyFault) -> [PEMBlock] {
        guard let stream = NativeStream(text) else { throw KeyFault("the text is too long") }
        defer { ERR_clear_error() }
        var blocks: [PEMBlock] = []
        while let block = stream.nextBlock() {
            if block.label != "EC PARAMETERS" { blocks.append(block) }
        }
        // A block that begins and does not end well would otherwise be passed over in silence.
        guard stream.endedWell else { throw KeyFault("PEM block \(blocks.count + 1) is broken") }
        return blocks
    }

    /// The key in the block; nil if its label is that of something else.
    func key(named name: String) throws(KeyFault) -> NativeKey? {
        guard !hasHeader, label != "ENCRYPTED PRIVATE KEY" else { throw KeyFault("\(name) is encrypted") }
        let read: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> OpaquePointer?
        switch label {
        case "PUBLIC KEY": unsafe read = { unsafe d2i_PUBKEY(nil, $0, $1) }
        case "RSA PUBLIC KEY": unsafe read = { unsafe d2i_PublicKey(EVP_PKEY_RSA, nil, $0, $1) }
        case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
            unsafe read = { unsafe d2i_AutoPrivateKey(nil, $0, $1) }
        case "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE": unsafe read = Self.keyOfCertificate
        default: return nil
        }
        guard let key = unsafe NativeKey(der: der, read) else { throw KeyFault("\(name) (\(label)) cannot be read") }
        return key
    }

    private static func keyOfCertificate(
        _ next: UnsafeMutablePointer<UnsafePointer<UInt8>?>, _ count: Int
    ) -> OpaquePointer? {
        guard let certificate = unsafe d2i_X509(nil, next, count) else { return nil }
        defer { unsafe X509_free(certificate) }
        return unsafe X509_get_pubkey(certificate)
    }
}

/// Text that OpenSSL reads from, or writes to.
@safe final class NativeStream {
    let pointer: OpaquePointer
    private(set) var endedWell = true

    /// A stream over a copy of `text`.
    init?(_ text: RawSpan) {
        guard text.byteCount < Int(Int32.max), let made = unsafe BIO_new(BIO_s_secmem()) else { return nil }
        unsafe pointer = made
        let wrote = unsafe text.withUnsafeBytes { unsafe BIO_write(made, $0.baseAddress, Int32($0.count)) }
        guard text.byteCount == 0 || Int(wrote) == text.byteCount else { return nil }
    }

    deinit { unsafe BIO_free(pointer) }

    /// Everything not yet read.
    func rest() -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe BIO_read(pointer, &chunk, Int32(chunk.count))
            guard count > 0 else { return bytes }
            bytes += chunk.prefix(Int(count))
        }
    }

    /// The next PEM block; nil at the end and before a broken one.
    func nextBlock() -> PEMBlock? {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var content: UnsafeMutablePointer<UInt8>?
        var count = 0
        guard unsafe PEM_read_bio(pointer, &label, &header, &content, &count) == 1 else {
            endedWell = Self.lastFaultIsEndOfText()
            return nil
        }
        defer {
            unsafe CRYPTO_free(label, nil, 0)
            unsafe CRYPTO_free(header, nil, 0)
            unsafe CRYPTO_clear_free(content, count, nil, 0)
        }
        guard let label = unsafe label, let content = unsafe content else { return nil }
        return unsafe PEMBlock(
            label: String(cString: label), der: [UInt8](UnsafeBufferPointer(start: content, count: count)),
            hasHeader: header.map { unsafe $0.pointee != 0 } ?? false)
    }

    private static func lastFaultIsEndOfText() -> Bool {
        let fault = ERR_peek_last_error()
        return ERR_GET_LIB(fault) == ERR_LIB_PEM && ERR_GET_REASON(fault) == PEM_R_NO_START_LINE
    }
}
