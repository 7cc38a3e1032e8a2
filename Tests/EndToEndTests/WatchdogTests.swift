import Foundation
import Glibc
import TestThreads
import Testing

/// A gateway of which a part no longer works is restarted by its service manager.
@Suite(.ownThread) struct WatchdogTests {
    private static let settings = "TOLLGATE_WORKERS=2\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"\nTOLLGATE_UPSTREAM_U="

    @Test(.enabled(if: HeldThread.isAllowed)) func aWorkerThatIsStuckEndsThePingsUntilItsLoopTurnsAgain() throws {
        let (folder, upstream) = (try Folder(), try Upstream())
        let manager = try ServiceManager(folder)
        let gateway = try Gateway(Self.settings + upstream.url, folder: folder, environment: manager.environment)
        try manager.wait(for: "WATCHDOG=1", times: 2)
        #expect(try gateway.askAdmin("/livez").status == 200)

        let held = try HeldThread("worker-1", of: gateway.process.pid)
        // What was sent before has come once this has.
        try mustRun(
            "python3",
            ["-c", "import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b'MARK=1', sys.argv[1])", manager.path])
        try manager.wait(for: "MARK=1")
        let before = manager.count("WATCHDOG=1")
        try gateway.waitForLog("the event loop of a worker is stuck")
        // At most the one for which the loop had turned before.
        #expect(manager.count("WATCHDOG=1") <= before + 1)
        let sick = try gateway.askAdmin("/livez")
        #expect(sick.status == 503 && sick.text.contains("worker 1"), "\(sick.text)")

        try held.release()
        try gateway.waitForLog("the event loop of a worker turns again")
        try manager.wait(for: "WATCHDOG=1", times: manager.count("WATCHDOG=1") + 2)
        #expect(try gateway.askAdmin("/livez").status == 200)
        #expect(try gateway.stop() == 0)
    }
}

/// A thread of another process that a debugger (ptrace(2)) has stopped; the others of that process run on.
final class HeldThread {
    private let debugger: Subprocess

    private static let program = """
        import ctypes, os, sys
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        thread, PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = int(sys.argv[1]), 0x4206, 0x4207, 0x40000000
        for request in PTRACE_SEIZE, PTRACE_INTERRUPT:
            if libc.ptrace(request, thread, None, None) != 0:
                sys.exit(os.strerror(ctypes.get_errno()))
        os.waitpid(thread, WALL)
        print("held", flush=True)
        sys.stdin.readline()
        """

    init(_ name: String, of process: pid_t) throws {
        let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task")
        let thread = tasks.first { task in
            (try? String(contentsOfFile: "/proc/\(process)/task/\(task)/comm", encoding: .utf8)) == name + "\n"
        }
        guard let thread else { throw Fault("no thread \(name)") }
        debugger = try Subprocess("python3", ["-c", Self.program, thread])
        let debugger = debugger
        try debugger.output.wait(for: "the thread to stand still", until: { $0 == ["held"] || !debugger.isRunning })
        guard debugger.isRunning else { throw Fault("\(debugger.complaints.now)") }
    }

    /// The thread runs on: the kernel detaches a debugger that ends.
    func release() throws {
        debugger.say("\n")
        _ = try debugger.exitCode()
    }

    /// Whether this user may stop a process that is not a child of the debugger.
    static let isAllowed: Bool = {
        // Without a file there is no restriction beyond that of the same user.
        let scope = try? String(contentsOfFile: "/proc/sys/kernel/yama/ptrace_scope", encoding: .utf8)
        return scope == nil || scope == "0\n" || geteuid() == 0
    }()
}
