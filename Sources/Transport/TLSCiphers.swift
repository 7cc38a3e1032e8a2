import COpenSSL
import Wire

/// OpenSSL's cipher contexts of one thread, so that an idle session needs none.
///
/// Setting up a key costs about as much as encrypting a small record, so a context that still holds the session's key
/// is used as it is. Keys are told apart by their serial numbers, which are never used twice.
@safe
struct TLSCiphers: ~Copyable {
    @unsafe private struct Entry {
        var context: OpaquePointer?
        /// Of the key that the context holds, 0 if it holds none.
        var serial: UInt64 = 0
    }

    private static let count = 256
    private var entries = unsafe [Entry](repeating: Entry(), count: Self.count)

    deinit {
        for unsafe entry in unsafe entries { unsafe EVP_CIPHER_CTX_free(entry.context) }
    }

    /// Appends one record that holds both spans, which are 16,384 bytes at most. False, and nothing is appended, if
    /// OpenSSL fails.
    mutating func seal(
        _ type: TLSContentType, _ first: RawSpan, _ second: RawSpan, _ keys: inout TLSTrafficKeys,
        into out: inout ByteBuffer
    ) -> Bool {
        guard let context = unsafe context(keys, encrypts: true) else { return false }
        let header = TLSRecord.headerLength
        let count = first.byteCount + second.byteCount + 1
        var works = false
        unsafe out.withUnsafeRoom(header + count + TLSRecord.tagLength) { room in
            unsafe TLSRecord.writeHeader(count + TLSRecord.tagLength, room)
            unsafe Self.copy(first, room, header)
            unsafe Self.copy(second, room, header + first.byteCount)
            unsafe room[header + count - 1] = type.rawValue
            let content = unsafe UnsafeMutableRawBufferPointer(rebasing: room[header..<header + count])
            works = unsafe Self.begin(context, &keys, UnsafeRawBufferPointer(rebasing: room[..<header]))
                && Self.run(context, UnsafeRawBufferPointer(content), content)
                && Self.finish(context)
                && EVP_CIPHER_CTX_ctrl(
                    context, EVP_CTRL_AEAD_GET_TAG, Int32(TLSRecord.tagLength), room.baseAddress! + header + count) == 1
            return works ? room.count : 0
        }
        return works
    }

    /// Appends what the record protects: content, its type, and padding. False, and nothing is appended, if the record
    /// is not one that the peer has sealed.
    mutating func open(_ record: RawSpan, _ keys: inout TLSTrafficKeys, into out: inout ByteBuffer) -> Bool {
        let count = record.byteCount - TLSRecord.headerLength - TLSRecord.tagLength
        guard count > 0, let context = unsafe context(keys, encrypts: false) else { return false }
        var works = false
        unsafe out.withUnsafeRoom(count) { room in
            unsafe record.withUnsafeBytes { record in
                let header = unsafe UnsafeRawBufferPointer(rebasing: record.prefix(TLSRecord.headerLength))
                let content = unsafe UnsafeRawBufferPointer(rebasing: record[TLSRecord.headerLength...].prefix(count))
                let tag = unsafe UnsafeMutableRawPointer(mutating: record.baseAddress! + (record.count - TLSRecord.tagLength))
                works = unsafe Self.begin(context, &keys, header)
                    && EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(TLSRecord.tagLength), tag) == 1
                    && Self.run(context, content, room)
                    && Self.finish(context)
            }
            // What was not proven is not seen by anyone.
            return works ? count : 0
        }
        return works
    }
}

extension TLSCiphers {
    /// A context that holds the key; nil if OpenSSL has no memory.
    private mutating func context(_ keys: borrowing TLSTrafficKeys, encrypts: Bool) -> OpaquePointer? {
        let index = Int(truncatingIfNeeded: keys.serial % UInt64(Self.count))
        if unsafe entries[index].serial == keys.serial { return unsafe entries[index].context }
        if unsafe entries[index].context == nil { unsafe entries[index].context = EVP_CIPHER_CTX_new() }
        unsafe entries[index].serial = 0
        let context = unsafe entries[index].context
        let works = unsafe keys.key.span.withUnsafeBytes { key in
            unsafe EVP_CipherInit_ex(
                context, keys.suite.cipher, nil, key.baseAddress?.assumingMemoryBound(to: UInt8.self), nil,
                encrypts ? 1 : 0)
        }
        guard works == 1 else { return nil }
        unsafe entries[index].serial = keys.serial
        return unsafe context
    }

    /// Begins a record with its nonce and the header, which is protected too.
    private static func begin(
        _ context: OpaquePointer, _ keys: inout TLSTrafficKeys, _ header: UnsafeRawBufferPointer
    ) -> Bool {
        let nonce = keys.nextNonce()
        let isSet = unsafe nonce.span.withUnsafeBytes { nonce in
            unsafe EVP_CipherInit_ex(
                context, nil, nil, nil, nonce.baseAddress?.assumingMemoryBound(to: UInt8.self), -1)
        }
        return unsafe isSet == 1 && run(context, header, UnsafeMutableRawBufferPointer(start: nil, count: 0))
    }

    /// Encrypts or decrypts `bytes` into `room`, which may be the same memory; without room they are only protected.
    private static func run(
        _ context: OpaquePointer, _ bytes: UnsafeRawBufferPointer, _ room: UnsafeMutableRawBufferPointer
    ) -> Bool {
        var count: Int32 = 0
        return unsafe EVP_CipherUpdate(
            context, room.baseAddress?.assumingMemoryBound(to: UInt8.self), &count,
            bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), Int32(clamping: bytes.count)) == 1
    }

    /// Ends a record: when decrypting, true only if the tag proves it.
    private static func finish(_ context: OpaquePointer) -> Bool {
        var count: Int32 = 0
        var none: UInt8 = 0
        return unsafe EVP_CipherFinal_ex(context, &none, &count) == 1
    }

    private static func copy(_ bytes: RawSpan, _ room: UnsafeMutableRawBufferPointer, _ offset: Int) {
        guard !bytes.isEmpty else { return }
        unsafe bytes.withUnsafeBytes { unsafe UnsafeMutableRawBufferPointer(rebasing: room[offset...]).copyMemory(from: $0) }
    }
}
