package struct FileStamp: Equatable, Sendable { package let modifiedNanoseconds: Int64, inode: UInt64, size: Int64 }
package enum FileBytes {
    /// The whole file; more than `limit` bytes is a fault.
    package static func read(_ path: String, limit: Int) throws(SystemFault) -> [UInt8] { [] }
    /// Replaces the file in one step: a reader sees the old or the new bytes, also after a crash.
    package static func write(_ bytes: [UInt8], to path: String, mode: UInt32 = 0o600) throws(SystemFault) {}
    package static func stamp(_ path: String) throws(SystemFault) -> FileStamp { throw SystemFault("", errno: 0) }
    package static func makeDirectory(_ path: String, mode: UInt32 = 0o700) throws(SystemFault) {}
}
