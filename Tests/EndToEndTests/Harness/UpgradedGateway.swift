import Foundation
import Glibc
import Testing

/// A gateway whose program is replaced while it runs. All its processes end with their owner.
final class UpgradedGateway {
    let gateway: Gateway
    /// Of all processes, the newest last.
    private(set) var pids: [pid_t]
    let folder: Folder

    /// `settings` as for `Gateway`. The program is a link in the folder, which a test may replace.
    init(_ settings: String, folder: Folder? = nil, environment: [String: String] = [:]) throws {
        let folder = try folder ?? Folder()
        self.folder = folder
        try FileManager.default.createSymbolicLink(atPath: folder.file("program"), withDestinationPath: try Tollgate.binary.get())
        gateway = try Gateway(
            settings, folder: folder, command: ["/bin/bash", "-c", "shift; exec \(folder.file("program")) \"$@\"", "start"],
            environment: environment)
        pids = [gateway.process.pid]
    }

    deinit { for pid in pids + [startedLast] where pid > 0 { kill(pid, SIGKILL) } }

    /// Has another program started at the next upgrade; nil for that under test.
    func replaceProgram(by script: String?) throws {
        try FileManager.default.removeItem(atPath: folder.file("program"))
        guard let script else {
            try FileManager.default.createSymbolicLink(atPath: folder.file("program"), withDestinationPath: try Tollgate.binary.get())
            return
        }
        // Written by another process: one that a test beside this starts meanwhile may inherit the open file, which cannot be run then.
        try folder.write("program.text", script)
        chmod(folder.file("program.text"), 0o755)
        guard try Subprocess("cp", [folder.file("program.text"), folder.file("program")]).exitCode() == 0 else {
            throw Fault("no program is written")
        }
    }

    func writeSettings(_ settings: String) throws { try folder.write("gateway.env", Gateway.complete(settings, folder)) }

    func signal(_ number: Int32) { kill(pids[pids.count - 1], number) }

    /// Starts an upgrade and waits until it has succeeded or failed.
    @discardableResult
    func upgrade(succeeds: Bool = true) throws -> String {
        let outcome = succeeds ? "upgrade done" : "upgrade failed"
        let before = lines("upgrade done").count + lines("upgrade failed").count
        signal(SIGUSR2)
        try gateway.process.complaints.wait(for: "the end of an upgrade", seconds: 60) {
            $0.count { $0.contains("upgrade done") || $0.contains("upgrade failed") } > before
        }
        guard let line = lines(outcome).last, lines("upgrade done").count + lines("upgrade failed").count == before + 1,
            lines("upgrade done").count == pids.count - (succeeds ? 0 : 1)
        else { throw Fault("no \(outcome): \(gateway.process.complaints.now.suffix(8))") }
        if succeeds { pids.append(startedLast) }
        return line
    }

    func lines(_ text: String) -> [String] { gateway.process.complaints.now.filter { $0.contains(text) } }

    /// The process that an upgrade started last.
    var startedLast: pid_t {
        // A line that is no JSON fails the test at its end.
        guard let line = lines("upgrade begins").last, let pid = try? JSON(line)["pid"].text else { return -1 }
        return pid_t(pid) ?? -1
    }

    /// Waits until only the newest process is left.
    func waitForPredecessors() throws {
        let count = pids.count - 1
        try gateway.process.complaints.wait(for: "the end of the older processes", seconds: 40) { lines in
            lines.count { $0.contains(#""msg":"ended""#) } == count
        }
    }

    /// Ends the newest, and waits for the ends of all.
    func stop() throws {
        signal(SIGTERM)
        // The first one's exit code is known only to its parent, and the streams end with the last process.
        #expect(try gateway.process.exitCode(seconds: 40) == 0)
        #expect(lines(#""msg":"ended""#).count == pids.count)
        pids = []
    }
}
