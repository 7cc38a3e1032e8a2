import COpenSSL

/// Why a TLS context cannot be made; the sentence names the file, and says what would be valid where the file itself shows it.
package struct TLSFault: Error, Equatable, Sendable, CustomStringConvertible {
    private let fault: String
    /// Advice for the operator; nil where only the caller knows the purpose of the file.
    private let right: String?

    package init(_ fault: String, right: String? = nil) {
        self.fault = fault
        self.right = right
    }

    package var description: String { right.map { "\(fault); \($0)" } ?? fault }

    /// The fault, with `right` where it does not say by itself what would be valid.
    package func describe(orGive right: String) -> String { self.right == nil ? "\(fault), \(right)" : description }
}

/// Result of a handshake step.
package enum TLSOutcome: Equatable, Sendable {
    case done
    case wantRead
    case wantWrite
    /// The peer closed the connection.
    case closed
    /// The handshake failed; a reason for the log.
    case failed(String)
}

/// OpenSSL's error queue of the calling thread.
enum TLSErrors {
    /// Clears the queue before a call whose failure is looked up in it. It is usually empty, which is cheap to check.
    static func clear() {
        if ERR_peek_error() != 0 { ERR_clear_error() }
    }

    /// Returns the oldest error, which is closest to the cause, and clears the queue. 0 for none.
    static func take() -> UInt {
        let code = ERR_get_error()
        ERR_clear_error()
        return code
    }

    /// OpenSSL's text for an error code: `wrong version number`.
    static func text(_ code: UInt) -> String {
        if let reason = unsafe ERR_reason_error_string(code) { return unsafe String(cString: reason) }
        return code == 0 ? "unknown TLS error" : "TLS error \(code & 0xFFF)"
    }

    static func takeText() -> String { text(take()) }
}
