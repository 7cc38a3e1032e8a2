import Foundation
import Testing

@Suite struct FormatTests {
    @Test func theTreeIsFormatted() throws {
        let format = Process()
        format.executableURL = URL(filePath: "/usr/bin/env")
        format.arguments = [
            "swift", "format", "lint", "--strict", "--recursive", "--parallel", "Sources", "Tests", "Package.swift", "docs/clients",
        ]
        format.currentDirectoryURL = SourceTree.root
        let output = Pipe()
        format.standardError = output
        try format.run()
        let findings = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        format.waitUntilExit()
        #expect(
            format.terminationStatus == 0,
            "run swift format format --in-place --recursive Sources Tests Package.swift docs/clients; it finds:\n\(findings.prefix(4_000))")
    }
}
