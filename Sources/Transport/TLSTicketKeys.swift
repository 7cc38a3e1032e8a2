import COpenSSL
import Glibc

/// What the tickets of resumable sessions are sealed with (RFC 5077 §4): one key seals, and it and the one before it open.
/// Immutable: new keys are a new value, so that threads share it without a lock.
struct TLSTicketKeys: Sendable {
    private let sealing: TLSTicketKey
    private let opening: TLSTicketKey?

    init() throws(TLSFault) { try self.init(sealing: TLSTicketKey(), opening: nil) }

    private init(sealing: TLSTicketKey, opening: TLSTicketKey?) {
        self.sealing = sealing
        self.opening = opening
    }

    /// A new key seals from here on; what the present one sealed still opens, and what the one before it did not.
    func rotated() throws(TLSFault) -> TLSTicketKeys { TLSTicketKeys(sealing: try TLSTicketKey(), opening: sealing) }

    /// Makes a context seal and open its sessions' tickets with the keys that each session's server context has.
    static func listen(_ context: OpaquePointer) {
        unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(context) { session, name, iv, cipher, mac, seals in
            guard let session = unsafe session, let name = unsafe name, let iv = unsafe iv,
                let cipher = unsafe cipher, let mac = unsafe mac
            else { return -1 }
            // Without keys there is no ticket, and none that opens.
            guard let keys = unsafe TLSPort.server(of: session)?.tickets else { return 0 }
            return unsafe seals == 1 ? keys.seal(name, iv, cipher, mac) : keys.open(name, iv, cipher, mac)
        }
    }

    /// 1: readied; 0: no ticket.
    private func seal(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer
    ) -> Int32 {
        guard unsafe RAND_bytes(iv, 16) == 1, unsafe sealing.ready(iv, cipher, mac, seals: true) else { return 0 }
        unsafe name.update(from: sealing.name, count: TLSTicketKey.nameLength)
        return 1
    }

    /// 1: readied; 2: readied, and the client should have a new ticket; 0: a key that is not known, so a whole handshake.
    private func open(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer
    ) -> Int32 {
        if unsafe sealing.isNamed(name) { return unsafe sealing.ready(iv, cipher, mac, seals: false) ? 1 : 0 }
        guard let opening, unsafe opening.isNamed(name) else { return 0 }
        return unsafe opening.ready(iv, cipher, mac, seals: false) ? 2 : 0
    }
}

/// One key for tickets: its name, which they carry in the clear, a key for AES-256-CBC and one for HMAC-SHA-256. Wiped with
/// its last holder.
@safe
private final class TLSTicketKey: Sendable {
    static let nameLength = 16
    private static let keyLength = 32
    private static let length = nameLength + 2 * keyLength

    // Written before the object is shared, only read after that, and freed with it.
    private nonisolated(unsafe) let bytes: UnsafeMutablePointer<UInt8>

    init() throws(TLSFault) {
        unsafe bytes = .allocate(capacity: Self.length)
        unsafe bytes.initialize(repeating: 0, count: Self.length)
        guard unsafe RAND_bytes(bytes, Int32(Self.length)) == 1 else { throw TLSFault(TLSErrors.takeText()) }
    }

    deinit {
        unsafe OPENSSL_cleanse(bytes, Self.length)
        unsafe bytes.deallocate()
    }

    var name: UnsafePointer<UInt8> { unsafe UnsafePointer(bytes) }

    func isNamed(_ other: UnsafePointer<UInt8>) -> Bool { unsafe memcmp(bytes, other, Self.nameLength) == 0 }

    func ready(_ iv: UnsafePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer, seals: Bool) -> Bool {
        let cipherKey = unsafe bytes + Self.nameLength
        return unsafe tls_use_ticket_key(cipher, mac, cipherKey, cipherKey + Self.keyLength, iv, seals ? 1 : 0) == 1
    }
}
