import COpenSSL
import Wire

/// What a TLS 1.3 record holds (RFC 8446 §5.1).
enum TLSContentType: UInt8 {
    case alert = 21
    case handshake = 22
    case data = 23
}

/// The frame of a protected TLS 1.3 record (RFC 8446 §5.2): type 23, version 3.3, length.
enum TLSRecord {
    static let headerLength = 5
    static let tagLength = 16
    /// Of the content alone.
    static let contentLimit = 16384
    /// Of everything behind the header: content, type, padding and tag.
    static let lengthLimit = contentLimit + 256

    static func writeHeader(_ length: Int, _ room: UnsafeMutableRawBufferPointer) {
        unsafe room[0] = TLSContentType.data.rawValue
        unsafe room[1] = 3
        unsafe room[2] = 3
        unsafe room[3] = UInt8(truncatingIfNeeded: length >> 8)
        unsafe room[4] = UInt8(truncatingIfNeeded: length)
    }

    /// The bytes of the record that begins at `offset`, header and all; nil if the header is not there yet.
    static func length(_ bytes: RawSpan, _ offset: Int) -> Int? {
        guard bytes.byteCount - offset >= headerLength else { return nil }
        return headerLength + Int(bytes[offset + 3]) << 8 + Int(bytes[offset + 4])
    }

    /// How many records `bytes` are, if they are whole protected ones and nothing else.
    static func countProtected(_ bytes: RawSpan) -> UInt64? {
        var offset = 0
        var count: UInt64 = 0
        while offset < bytes.byteCount {
            guard bytes[offset] == TLSContentType.data.rawValue, let length = length(bytes, offset),
                offset + length <= bytes.byteCount
            else { return nil }
            offset += length
            count += 1
        }
        return count
    }
}

/// Why our end gives up a session; the numbers of the alerts that say so (RFC 8446 §6).
enum TLSAlert: UInt8 {
    case closeNotify = 0
    case unexpectedMessage = 10
    case badRecord = 20
    case recordOverflow = 22
    case illegalParameter = 47
    case decodeError = 50
    case internalError = 80
    case userCanceled = 90

    /// The name of any alert: `bad record mac`.
    static func text(_ number: UInt8) -> String {
        unsafe SSL_alert_desc_string_long(Int32(number)).map { unsafe String(cString: $0) } ?? "alert \(number)"
    }
}
