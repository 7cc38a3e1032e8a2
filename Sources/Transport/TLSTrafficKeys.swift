import COpenSSL
import Synchronization
import Wire

/// The cipher suites of TLS 1.3 that the profile offers, by their numbers on the wire.
enum TLSSuite: UInt16 {
    case aes128 = 0x1301
    case aes256 = 0x1302
    case chacha20 = 0x1303

    var keyLength: Int { self == .aes128 ? 16 : 32 }
    /// Of the suite's hash, and so of its secrets.
    var secretLength: Int { self == .aes256 ? 48 : 32 }

    var hash: OpaquePointer? { unsafe self == .aes256 ? EVP_sha384() : EVP_sha256() }

    var cipher: OpaquePointer? {
        switch self {
        case .aes128: unsafe Self.ciphers.0
        case .aes256: unsafe Self.ciphers.1
        case .chacha20: unsafe Self.ciphers.2
        }
    }

    // Looked up once, since OpenSSL's own look-up takes locks; never changed after.
    private nonisolated(unsafe) static let ciphers = unsafe (
        EVP_CIPHER_fetch(nil, "AES-128-GCM", nil), EVP_CIPHER_fetch(nil, "AES-256-GCM", nil),
        EVP_CIPHER_fetch(nil, "ChaCha20-Poly1305", nil)
    )
}

/// A traffic secret for the application data of one direction (RFC 8446 §7.1).
struct TLSSecret {
    private(set) var bytes = InlineArray<48, UInt8>(repeating: 0)
    /// 32 or 48; 0 if there is none.
    private(set) var count = 0

    init() {}

    /// nil if these are not the hexadecimal digits of a secret.
    init?(hexadecimal digits: RawSpan) {
        guard digits.byteCount == 64 || digits.byteCount == 96 else { return nil }
        for index in 0..<digits.byteCount / 2 {
            guard let high = digits[2 * index].hexValue, let low = digits[2 * index + 1].hexValue else { return nil }
            bytes[index] = high << 4 | low
        }
        count = digits.byteCount / 2
    }

    /// The secret that follows after a key update (RFC 8446 §7.2).
    func updated(_ suite: TLSSuite) -> TLSSecret {
        var next = self
        next.bytes = derive("traffic upd", count, suite)
        return next
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 §7.1). `length` is at most the hash's, so that the first block
    /// of HKDF-Expand (RFC 5869 §2.3) is all of it.
    func derive(_ label: StaticString, _ length: Int, _ suite: TLSSuite) -> InlineArray<48, UInt8> {
        var info = ByteBuffer(capacity: 32)
        info.append(UInt8(0))
        info.append(UInt8(truncatingIfNeeded: length))
        info.append(UInt8(truncatingIfNeeded: 6 + label.utf8CodeUnitCount))
        info.append("tls13 ")
        info.append(label)
        info.append(UInt8(0))
        info.append(UInt8(1))
        var block = InlineArray<48, UInt8>(repeating: 0)
        var out = block.mutableSpan
        unsafe out.withUnsafeMutableBytes { out in
            unsafe info.readable.withUnsafeBytes { info in
                unsafe bytes.span.withUnsafeBytes { secret in
                    _ = unsafe HMAC(
                        suite.hash, secret.baseAddress, Int32(count), info.baseAddress?.assumingMemoryBound(to: UInt8.self),
                        info.count, out.baseAddress?.assumingMemoryBound(to: UInt8.self), nil)
                }
            }
        }
        return block
    }
}

/// What protects the records of one direction (RFC 8446 §5.2, §5.3, §7.3).
struct TLSTrafficKeys: ~Copyable {
    let suite: TLSSuite
    private(set) var secret: TLSSecret
    /// The suite's key length of it counts.
    private(set) var key: InlineArray<48, UInt8>
    /// The first four bytes of the nonces, and the last eight before the sequence number changes them.
    private var nonceHead: UInt32
    private var nonceTail: UInt64
    /// The number of the next record.
    private(set) var sequence: UInt64
    /// Names this key among all of the process.
    private(set) var serial: UInt64

    /// `sequence` is how many records these keys have protected so far.
    init(_ suite: TLSSuite, _ secret: TLSSecret, sequence: UInt64 = 0) {
        self.suite = suite
        self.secret = secret
        self.sequence = sequence
        key = secret.derive("key", suite.keyLength, suite)
        let nonce = secret.derive("iv", 12, suite)
        nonceHead = (0..<4).reduce(0) { $0 << 8 | UInt32(nonce[$1]) }
        nonceTail = (4..<12).reduce(0) { $0 << 8 | UInt64(nonce[$1]) }
        serial = Self.serials.wrappingAdd(1, ordering: .relaxed).newValue
    }

    /// The keys after a key update.
    mutating func update() {
        self = TLSTrafficKeys(suite, secret.updated(suite))
    }

    /// The nonce of the next record, which then is behind.
    mutating func nextNonce() -> InlineArray<12, UInt8> {
        let tail = nonceTail ^ sequence
        sequence &+= 1
        var nonce = InlineArray<12, UInt8>(repeating: 0)
        for index in 0..<4 { nonce[index] = UInt8(truncatingIfNeeded: nonceHead >> UInt32(24 - 8 * index)) }
        for index in 0..<8 { nonce[4 + index] = UInt8(truncatingIfNeeded: tail >> UInt64(56 - 8 * index)) }
        return nonce
    }

    private static let serials = Atomic<UInt64>(0)
}
