import CLinux
import Glibc

/// Change stamp of a file: another stamp means other contents.
package struct FileStamp: Hashable, Sendable {
    package let modifiedNanoseconds: Int64
    package let inode: UInt64
    package let size: Int64
    /// The permission bits.
    package let mode: UInt32
    package let owner: UInt32
    package let group: UInt32
}

/// Small files as a whole: keys, certificates, settings. Blocking; every error names the path.
package enum FileBytes {
    /// Reads the whole file. Fails for a directory, or more than `limit` bytes.
    package static func read(_ path: String, limit: Int) throws(SystemFault) -> [UInt8] {
        let operation = "read \(path)"
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw SystemFault(operation) }
        defer { close(descriptor) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(limit + 1, 65536))
        while bytes.count <= limit {
            let count = unsafe Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0 {
                if errno == EINTR { continue }
                throw SystemFault(operation)
            }
            if count == 0 { return bytes }
            bytes.append(contentsOf: chunk.prefix(count))
        }
        throw SystemFault(operation, reason: "it is longer than \(limit) bytes")
    }

    /// Replaces the file atomically and durably: a reader sees the old or the new bytes, also after a crash. The new file belongs
    /// to the process's user and group, unless it takes the place of `replaced`, whose owner and group it then keeps.
    package static func write(
        _ bytes: [UInt8], to path: String, mode: UInt32 = 0o600, replacing replaced: FileStamp? = nil
    ) throws(SystemFault) {
        let operation = "write \(path)"
        // In the same directory, because a rename cannot cross file systems.
        var temporary = Array("\(path).XXXXXX".utf8CString)
        let descriptor = unsafe clinux_temporary_file(&temporary)
        guard descriptor >= 0 else { throw SystemFault(operation) }
        do throws(SystemFault) {
            try fill(descriptor, bytes, mode, replaced, operation)
            guard unsafe rename(temporary, path) == 0 else { throw SystemFault(operation) }
        } catch {
            _ = unsafe unlink(temporary)
            throw error
        }
        try flushFolder(of: path, operation)
    }

    /// The names of what a folder has, sorted.
    package static func names(in folder: String) throws(SystemFault) -> [String] {
        guard let stream = unsafe opendir(folder) else { throw SystemFault("read \(folder)") }
        defer { _ = unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            if name != "." && name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    package static func stamp(_ path: String) throws(SystemFault) -> FileStamp {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { throw SystemFault("look at \(path)") }
        return FileStamp(
            modifiedNanoseconds: Int64(status.st_mtim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_mtim.tv_nsec),
            inode: UInt64(status.st_ino), size: Int64(status.st_size), mode: status.st_mode & 0o7777,
            owner: status.st_uid, group: status.st_gid)
    }

    /// Creates the directory and its missing parents with `mode`. An existing one is not changed.
    package static func makeDirectory(_ path: String, mode: UInt32 = 0o700) throws(SystemFault) {
        let operation = "create the folder \(path)"
        var ends = path.indices.filter { path[$0] == "/" && $0 != path.startIndex }
        ends.append(path.endIndex)
        for end in ends {
            let part = String(path[..<end])
            if unsafe mkdir(part, mode) == 0 || (errno == EEXIST && isDirectory(part)) { continue }
            throw SystemFault(operation, errno: errno == EEXIST ? ENOTDIR : errno)
        }
    }

    /// The folder at which relative paths begin.
    package static func workingDirectory() throws(SystemFault) -> String {
        guard let path = unsafe getcwd(nil, 0) else { throw SystemFault("look up the working directory") }
        defer { unsafe free(path) }
        return unsafe String(cString: path)
    }

    /// Why the program at `path` cannot be started by this user; nil if it can.
    package static func reasonNotToRun(_ path: String) -> String? {
        if isDirectory(path) { return systemErrorText(EISDIR) }
        return unsafe access(path, X_OK) == 0 ? nil : systemErrorText(errno)
    }

    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }

    /// Writes, sets the owner and the mode, syncs and closes.
    private static func fill(
        _ descriptor: Int32, _ bytes: [UInt8], _ mode: UInt32, _ replaced: FileStamp?, _ operation: String
    ) throws(SystemFault) {
        defer { close(descriptor) }
        var written = 0
        while written < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.write(descriptor, $0.baseAddress! + written, bytes.count - written)
            }
            guard count >= 0 || errno == EINTR else { throw SystemFault(operation) }
            written += max(0, count)
        }
        // The owner first: until the mode is set, the temporary file is its owner's alone.
        if let replaced, fchown(descriptor, replaced.owner, replaced.group) != 0 { throw SystemFault(operation) }
        guard fchmod(descriptor, mode) == 0, fsync(descriptor) == 0 else { throw SystemFault(operation) }
    }

    /// Syncs the directory, which makes the new name durable.
    private static func flushFolder(of path: String, _ operation: String) throws(SystemFault) {
        let folder = path.lastIndex(of: "/").map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
        let descriptor = unsafe open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY)
        guard descriptor >= 0 else { throw SystemFault(operation) }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 || errno == EINVAL else { throw SystemFault(operation) }
    }
}
