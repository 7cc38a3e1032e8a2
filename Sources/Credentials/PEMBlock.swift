import COpenSSL
import Wire

/// A PEM block (RFC 7468), decoded.
struct PEMBlock {
    /// The label after `BEGIN`.
    let label: String
    let der: [UInt8]
    /// Whether the block has headers (RFC 1421), as keys encrypted in the old style have.
    let hasHeader: Bool

    /// All blocks of `text`, in order. Text between them is ignored, and so is the `EC PARAMETERS` block that
    /// `openssl ecparam` writes before a key, which repeats it.
    static func all(in text: RawSpan) throws(KeyFault) -> [PEMBlock] {
        guard let stream = NativeStream(text) else { throw KeyFault("the text is too long") }
        defer { ERR_clear_error() }
        var blocks: [PEMBlock] = []
        while let block = stream.nextBlock() {
            if block.label != "EC PARAMETERS" { blocks.append(block) }
        }
        // OpenSSL reports a truncated block and the end of the text alike; without this check the block would be ignored.
        guard stream.reachedEnd else { throw KeyFault("PEM block \(blocks.count + 1) is broken") }
        return blocks
    }

    /// The key in the block; nil if the label is not that of a key or certificate. Encrypted keys are a fault.
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

/// Owner of an OpenSSL memory `BIO`, from which PEM is read and to which it is written. Its memory is wiped when freed.
@safe final class NativeStream {
    let pointer: OpaquePointer
    /// Whether the last `nextBlock` returned nil at the end of the text and not at a broken block.
    private(set) var reachedEnd = true

    /// A stream with a copy of `text`; nil if it is 2 GiB or more.
    init?(_ text: RawSpan) {
        guard text.byteCount < Int(Int32.max), let made = unsafe BIO_new(BIO_s_secmem()) else { return nil }
        unsafe pointer = made
        let wrote = unsafe text.withUnsafeBytes { unsafe BIO_write(made, $0.baseAddress, Int32($0.count)) }
        guard text.byteCount == 0 || Int(wrote) == text.byteCount else { return nil }
    }

    deinit { unsafe BIO_free(pointer) }

    /// All unread bytes.
    func rest() -> [UInt8] {
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = unsafe BIO_read(pointer, &chunk, Int32(chunk.count))
            guard count > 0 else { return bytes }
            bytes += chunk.prefix(Int(count))
        }
    }

    /// The next PEM block; nil at the end and at a broken block.
    func nextBlock() -> PEMBlock? {
        var label: UnsafeMutablePointer<CChar>?
        var header: UnsafeMutablePointer<CChar>?
        var content: UnsafeMutablePointer<UInt8>?
        var count = 0
        guard unsafe PEM_read_bio(pointer, &label, &header, &content, &count) == 1 else {
            reachedEnd = Self.lastFaultIsEndOfText()
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
