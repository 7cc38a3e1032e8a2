import Foundation
import TestThreads
import Testing

/// The unit that systemd runs the gateway by.
@Suite(.ownThread) struct ServiceUnitTests {
    private static let analyze = "/usr/bin/systemd-analyze"

    private static var unit: String {
        get throws { try String(contentsOf: repository.appendingPathComponent("deploy/systemd/tollgate.service"), encoding: .utf8) }
    }

    @Test(.enabled(if: isThere(analyze)))
    func systemdTakesTheUnitAsItIs() throws {
        let folder = try Folder()
        // The program is not where it will be installed: another stands for it.
        try folder.write("tollgate.service", Self.unit.replacingOccurrences(of: "/usr/bin/tollgate", with: "/bin/true"))
        let outcome = try run(Self.analyze, ["verify", "--man=no", folder.file("tollgate.service")])
        #expect(outcome.code == 0)
        // systemd 252 passes over the second Type=.
        let complaints = (outcome.output + outcome.complaints).split(separator: "\n").filter { !$0.contains("notify-reload") }
        #expect(!complaints.contains { $0.contains("tollgate.service") }, "\(complaints)")
        try folder.write("broken.service", Self.unit.replacingOccurrences(of: "PrivateTmp=yes", with: "PrivateTmp=perhaps"))
        #expect(
            try run(Self.analyze, ["verify", "--man=no", folder.file("broken.service")]).complaints.contains("broken.service"), "it looks")
    }
}
