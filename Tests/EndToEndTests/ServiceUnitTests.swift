import Foundation
import TestThreads
import Testing

/// The unit that systemd runs the gateway by.
@Suite(.ownThread) struct ServiceUnitTests {
    private static let analyze = "/usr/bin/systemd-analyze"

    private static var unit: String {
        get throws {
            let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            return try String(contentsOf: root.appendingPathComponent("deploy/systemd/tollgate.service"), encoding: .utf8)
        }
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: analyze)))
    func systemdTakesTheUnitAsItIs() throws {
        let folder = try Folder()
        // The program is not where it will be installed: another stands for it.
        try folder.write("tollgate.service", Self.unit.replacingOccurrences(of: "/usr/local/bin/tollgate", with: "/bin/true"))
        let outcome = try run(Self.analyze, ["verify", "--man=no", folder.file("tollgate.service")])
        #expect(outcome.code == 0)
        #expect(!(outcome.output + outcome.complaints).contains("tollgate.service"), "\(outcome.complaints)")
        try folder.write("broken.service", Self.unit.replacingOccurrences(of: "DynamicUser=yes", with: "DynamicUser=perhaps"))
        #expect(try run(Self.analyze, ["verify", "--man=no", folder.file("broken.service")]).complaints.contains("broken.service"), "it looks")
    }
}
