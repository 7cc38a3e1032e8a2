import COpenSSL
import Glibc

/// Keys of session tickets (RFC 5077, 4): one encrypts, it and the previous one decrypt. Immutable, so threads share it
/// without a lock.
///
/// Gateways may share keys beside those of the process: the previous, the present and the next. These are for TLS 1.3 alone. There a
/// ticket's key tells nothing of what a connection carries, as each resumption exchanges new keys too (psk_dhe_ke, and no early data); in
/// TLS 1.2 it would tell all.
struct TLSTicketKeys: Sendable {
    private let sealing: TLSTicketKey
    private let opening: TLSTicketKey?
    private let shared: [TLSTicketKey]

    init() throws(TLSFault) { self.init(sealing: try TLSTicketKey(), opening: nil, shared: []) }

    private init(sealing: TLSTicketKey, opening: TLSTicketKey?, shared: [TLSTicketKey]) {
        self.sealing = sealing
        self.opening = opening
        self.shared = shared
    }

    /// Makes a new key of the process current, and the current one the previous.
    func rotated() throws(TLSFault) -> TLSTicketKeys { TLSTicketKeys(sealing: try TLSTicketKey(), opening: sealing, shared: shared) }

    /// With these keys of all gateways: the previous, the present and the next; or without any.
    func sharing(_ keys: [[UInt8]]) -> TLSTicketKeys {
        precondition(keys.isEmpty || keys.count == 3, "a previous, a present and a next key")
        return TLSTicketKeys(sealing: sealing, opening: opening, shared: keys.map(TLSTicketKey.init))
    }

    /// Bytes of a shared key.
    static var sharedLength: Int { TLSTicketKey.length }

    /// Installs the ticket callback, which uses the keys of the session's server context.
    static func listen(_ context: OpaquePointer) {
        unsafe SSL_CTX_set_tlsext_ticket_key_evp_cb(context) { session, name, iv, cipher, mac, seals in
            guard let session = unsafe session, let name = unsafe name, let iv = unsafe iv,
                let cipher = unsafe cipher, let mac = unsafe mac
            else { return -1 }
            // Without keys, tickets are neither issued nor accepted.
            guard let keys = unsafe TLSPort.server(of: session)?.tickets else { return 0 }
            let shares = unsafe SSL_version(session) == TLS1_3_VERSION && !keys.shared.isEmpty
            return unsafe seals == 1 ? keys.seal(name, iv, cipher, mac, shares) : keys.open(name, iv, cipher, mac, shares)
        }
    }

    /// 1: ready; 0: issue no ticket.
    private func seal(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer,
        _ shares: Bool
    ) -> Int32 {
        let key = shares ? shared[1] : sealing
        guard unsafe RAND_bytes(iv, 16) == 1, unsafe key.ready(iv, cipher, mac, seals: true) else { return 0 }
        unsafe name.update(from: key.name, count: TLSTicketKey.nameLength)
        return 1
    }

    /// 1: ready; 2: ready, and the client should get a new ticket; 0: unknown key, so a full handshake.
    private func open(
        _ name: UnsafeMutablePointer<UInt8>, _ iv: UnsafeMutablePointer<UInt8>, _ cipher: OpaquePointer, _ mac: OpaquePointer,
        _ shares: Bool
    ) -> Int32 {
        if shares, let index = shared.firstIndex(where: { unsafe $0.isNamed(name) }) {
            return unsafe shared[index].ready(iv, cipher, mac, seals: false) ? index == 1 ? 1 : 2 : 0
        }
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
    static let length = nameLength + 2 * keyLength

    // Written before the object is shared, read-only afterwards, freed with it.
    private nonisolated(unsafe) let bytes: UnsafeMutablePointer<UInt8>

    init() throws(TLSFault) {
        unsafe bytes = .allocate(capacity: Self.length)
        unsafe bytes.initialize(repeating: 0, count: Self.length)
        guard unsafe RAND_bytes(bytes, Int32(Self.length)) == 1 else { throw TLSFault(TLSErrors.takeText()) }
    }

    /// A key of these bytes, `length` of them: name, cipher key and MAC key.
    init(_ key: [UInt8]) {
        precondition(key.count == Self.length, "a ticket key of another length")
        unsafe bytes = .allocate(capacity: Self.length)
        unsafe bytes.initialize(from: key, count: Self.length)
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
