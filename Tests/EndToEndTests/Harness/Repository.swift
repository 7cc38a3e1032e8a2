import Foundation

/// The folder of the project.
let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

/// Whether tests may mount file systems of their own, which takes root's rights.
let mayMount = (try? run("/usr/bin/unshare", ["--mount", "/bin/true"]).code) == 0

/// Whether a program can be run.
func isThere(_ path: String) -> Bool { FileManager.default.isExecutableFile(atPath: path) }
