import COpenSSL

/// Why a TLS context cannot be made: a sentence that names the file and says what would be right.
package struct TLSFault: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}

/// What became of a step of the handshake.
package enum TLSOutcome: Equatable, Sendable {
    case done
    case wantRead
    case wantWrite
    /// The peer went away.
    case closed
    /// No TLS connection came about; the reason, for the log.
    case failed(String)
}

/// The errors that OpenSSL keeps in a queue of the calling thread.
enum TLSErrors {
    /// Empties the queue, before each call whose failure is looked up in it. Mostly it is empty, which is quickly seen.
    static func clear() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }

    /// The oldest error, which is nearest to the cause; empties the queue. 0 if there is none.
    static func take() -> UInt {
        let code = ERR_get_error()
        ERR_clear_error()
        return code
    }

    /// OpenSSL's words for an error code: `wrong version number`.
    static func text(_ code: UInt) -> String {
        if let reason = unsafe ERR_reason_error_string(code) { return unsafe String(cString: reason) }
        return code == 0 ? "unknown TLS error" : "TLS error \(code & 0xFFF)"
    }

    static func takeText() -> String { text(take()) }
}
