import Glibc

/// Space of the file system that has a path.
package struct FileSystemSpace: Equatable, Sendable {
    /// In bytes; what is free is free to this user.
    package let free: UInt64
    package let total: UInt64

    package init(free: UInt64, total: UInt64) {
        self.free = free
        self.total = total
    }

    package init(of path: String) throws(SystemFault) {
        var status = statvfs()
        guard unsafe statvfs(path, &status) == 0 else { throw SystemFault("look at the file system of \(path)") }
        self.init(free: UInt64(status.f_bavail) &* UInt64(status.f_frsize), total: UInt64(status.f_blocks) &* UInt64(status.f_frsize))
    }
}
