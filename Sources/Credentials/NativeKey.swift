import COpenSSL
import Synchronization
import Wire

/// Owner of an OpenSSL `EVP_PKEY`, public or private. Any thread.
@safe final class NativeKey: Sendable {
    // Proof for `nonisolated(unsafe)`: an EVP_PKEY is immutable once built; OpenSSL counts its references atomically and locks
    // its internal caches. Any thread may use it to verify, sign or export.
    @unsafe nonisolated(unsafe) let pointer: OpaquePointer

    /// Takes ownership of the reference.
    @unsafe init(adopting pointer: OpaquePointer) { unsafe self.pointer = pointer }

    /// The beginning of its last signature.
    let begun = Mutex<BegunSignature?>(nil)

    deinit { unsafe EVP_PKEY_free(pointer) }

    /// Whether it is of OpenSSL's key type `name`.
    func isA(_ name: String) -> Bool { unsafe EVP_PKEY_is_a(pointer, name) == 1 }

    /// The bits of the modulus (RSA) or of the field (curves).
    var bits: Int { Int(unsafe EVP_PKEY_get_bits(pointer)) }

    /// OpenSSL's name of an elliptic curve; nil for other keys.
    var groupName: String? {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard unsafe EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1, length < name.count else {
            ERR_clear_error()
            return nil
        }
        return String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// A parameter of the key as big-endian bytes: without leading zeros, or padded to `width`; nil if the key has none.
    func number(_ name: String, width: Int? = nil) -> [UInt8]? {
        var value: OpaquePointer?
        guard unsafe EVP_PKEY_get_bn_param(pointer, name, &value) == 1, let number = unsafe value else {
            ERR_clear_error()
            return nil
        }
        defer { unsafe BN_clear_free(number) }
        let count = width ?? (Int(unsafe BN_num_bits(number)) + 7) / 8
        var bytes = [UInt8](repeating: 0, count: count)
        guard unsafe BN_bn2binpad(number, &bytes, Int32(count)) == Int32(count) else { return nil }
        return bytes
    }

    /// The 32 public bytes of an Ed25519 key.
    var rawPublicBytes: [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 32)
        var count = bytes.count
        guard unsafe EVP_PKEY_get_raw_public_key(pointer, &bytes, &count) == 1, count == bytes.count else {
            ERR_clear_error()
            return nil
        }
        return bytes
    }

    /// The public half as SubjectPublicKeyInfo in DER, which does not depend on the form in which the key was read.
    var publicDER: [UInt8]? { unsafe encodedDER { unsafe i2d_PUBKEY(pointer, $0) } }

    /// Whether OpenSSL's check of the public key passes; for a curve: the point is on it and is not infinity.
    var passesPublicCheck: Bool {
        guard let context = unsafe EVP_PKEY_CTX_new_from_pkey(nil, pointer, nil) else { return false }
        defer { unsafe EVP_PKEY_CTX_free(context) }
        let passes = unsafe EVP_PKEY_public_check(context) == 1
        ERR_clear_error()
        return passes
    }
}

extension NativeKey {
    /// Parses a SubjectPublicKeyInfo in DER; nil if OpenSSL refuses it, for example a point that is not on its curve.
    convenience init?(publicDER der: [UInt8]) {
        unsafe self.init(der: der) { unsafe d2i_PUBKEY(nil, $0, $1) }
    }

    /// Parses `der` with `read`, one of OpenSSL's d2i functions; nil if it fails or leaves bytes.
    @unsafe convenience init?(
        der: [UInt8], _ read: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> OpaquePointer?
    ) {
        let key = unsafe der.withUnsafeBufferPointer { bytes -> OpaquePointer? in
            var next = bytes.baseAddress
            guard let key = unsafe read(&next, bytes.count) else { return nil }
            guard unsafe next == bytes.baseAddress.map({ unsafe $0 + bytes.count }) else {
                unsafe EVP_PKEY_free(key)
                return nil
            }
            return unsafe key
        }
        guard let key = unsafe key else {
            ERR_clear_error()
            return nil
        }
        unsafe self.init(adopting: key)
    }
}

/// The output of `write`, one of OpenSSL's i2d functions; nil if it fails.
@unsafe func encodedDER(_ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>) -> Int32) -> [UInt8]? {
    var start: UnsafeMutablePointer<UInt8>?
    let count = unsafe write(&start)
    guard count > 0, let bytes = unsafe start else {
        ERR_clear_error()
        return nil
    }
    defer { unsafe CRYPTO_free(bytes, nil, 0) }
    return unsafe [UInt8](UnsafeBufferPointer(start: bytes, count: Int(count)))
}
