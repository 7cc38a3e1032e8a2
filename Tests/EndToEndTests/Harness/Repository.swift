import Foundation

/// The folder of the project.
let repository = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

/// Whether a program can be run.
func isThere(_ path: String) -> Bool { FileManager.default.isExecutableFile(atPath: path) }
