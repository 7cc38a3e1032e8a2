import Glibc

/// A failed system call, described for the operator.
package struct SystemFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// The words after "cannot": `listen on 127.0.0.1:8000`.
    package let operation: String
    /// 0 if the reason is of another kind.
    package let errno: Int32
    /// `address already in use`.
    package let reason: String

    /// `errno` defaults to the calling thread's.
    package init(_ operation: String, errno: Int32 = Glibc.errno) {
        self.operation = operation
        self.errno = errno
        reason = systemErrorText(errno)
    }

    package init(_ operation: String, reason: String) {
        self.operation = operation
        errno = 0
        self.reason = asClause(reason)
    }

    /// `cannot listen on 127.0.0.1:8000: address already in use`.
    package var description: String { "cannot \(operation): \(reason)" }
}

/// The system's text for an errno, as a clause.
package func systemErrorText(_ number: Int32) -> String {
    let text = unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { room in
        guard unsafe strerror_r(number, room.baseAddress!, room.count) == 0 else { return "error \(number)" }
        return unsafe String(cString: room.baseAddress!)
    }
    return asClause(text)
}

/// "Is a directory" becomes "is a directory"; "RFS specific error" stays.
private func asClause(_ text: String) -> String {
    let start = text.utf8.prefix(2)
    guard start.count == 2, start.first!.isCapital, !start.last!.isCapital else { return text }
    return text.prefix(1).lowercased() + text.dropFirst()
}

extension UInt8 {
    fileprivate var isCapital: Bool { (65...90).contains(self) }
}
