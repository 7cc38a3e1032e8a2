import Glibc

/// A system call that failed, said so that a person can act on it.
package struct SystemFault: Error, Equatable, Sendable, CustomStringConvertible {
    /// What was attempted, as the words after "cannot": `listen on 127.0.0.1:8000`.
    package let operation: String
    /// The error number of the call.
    package let errno: Int32

    /// `errno` is the calling thread's, unless given.
    package init(_ operation: String, errno: Int32 = Glibc.errno) {
        self.operation = operation
        self.errno = errno
    }

    /// `cannot listen on 127.0.0.1:8000: address already in use`.
    package var description: String { "cannot \(operation): \(systemErrorText(errno))" }
}

/// The system's words for an error number, small first letter as in a sentence.
package func systemErrorText(_ number: Int32) -> String {
    let text = unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { room in
        guard unsafe strerror_r(number, room.baseAddress!, room.count) == 0 else { return "" }
        return unsafe String(cString: room.baseAddress!)
    }
    guard let first = text.utf8.first else { return "error \(number)" }
    // "Is a directory" becomes "is a directory"; "RFS specific error" stays.
    let second = text.utf8.dropFirst().first ?? 32
    guard (65...90).contains(first), !(65...90).contains(second) else { return text }
    return text.prefix(1).lowercased() + text.dropFirst()
}
