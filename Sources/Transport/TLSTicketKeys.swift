import COpenSSL
import Glibc

/// Keys of session tickets (RFC 5077, 4): one encrypts, it and the previous one decrypt. Immutable, so threads share it
/// without a lock.
struct TLSTicketKeys: Sendable {
    private let sealing: TLSTicketKey
    private let opening: TLSTicketKey?

    init() throws(TLSFault) { try self.init(sealing: TLSTicketKey(), opening: nil) }

    private init(sealing: TLSTicketKey, opening: TLSTicketKey?) {
        self.sealing = sealing
        self.opening = opening
    }

    /// Makes a new key current, and the current one the previous.
    func rotated() throws(TLSFault) -> TLSTicketKeys { TLSTicketKeys(sealing: try TLSTicketKey(), opening: sealing) }

    /// Installs the ticket callback, which uses the keys of the session's server context.
    static func listen(_ context: OpaquePointer) {
        unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(context) { session, name, iv, cipher, mac, seals in
            guard let session = unsafe session, let name = unsafe name, let iv = unsafe iv,
                let cipher = unsafe cipher, let mac = unsafe mac
            else { return -1 }
            // Without keys, tickets are neither issued nor accepted.
            guard let keys = unsafe TLSPort.server(of: session)?.tickets else { return 0 }
            return unsafe seals == 1 ? keys.seal(name, iv, cipher, mac) : keys.open(name, iv, cipher, mac)
        }
    }

    /// 1: ready; 0: issue no ticket.
    private func seal(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer
    ) -> Int32 {
        guard unsafe RAND_bytes(iv, 16) == 1, unsafe sealing.ready(iv, cipher, mac, seals: true) else { return 0 }
        unsafe name.update(from: sealing.name, count: TLSTicketKey.nameLength)
        return 1
    }

    /// 1: ready; 2: ready, and the client should get a new ticket; 0: unknown key, so a full handshake.
    private func open(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer
    ) -> Int32 {
        if unsafe sealing.isNamed(name) { return unsafe sealing.ready(iv, cipher, mac, seals: false) ? 1 : 0 }
        guard let opening, unsafe opening.isNamed(name) else { return 0 }
        return unsafe opening.ready(iv, cipher, mac, seals: false) ? 2 : 0
    }
}

/// One ticket key: its public name, an AES-256-CBC key and an HMAC-SHA-256 key. Wiped when its last owner releases it.
@safe
private final class TLSTicketKey: Sendable {
    static let nameLength = 16
    private static let keyLength = 32
    private static let length = nameLength + 2 * keyLength

    // Written before the object is shared, read-only afterwards, freed with it.
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
