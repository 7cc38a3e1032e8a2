import CLinux
import Glibc

/// A program that this process has started.
package struct ChildProcess: Sendable {
    package let pid: Int32

    /// The descriptor under which the child finds the one that it was given.
    package static let givenDescriptor: Int32 = 3

    /// Starts `program`, a path or a name on the PATH, with these variables, the standard streams and blocked signals of this process,
    /// and `descriptor` as `givenDescriptor`. This process's other descriptors close in it, also those that a C library opened
    /// without O_CLOEXEC.
    package init(
        _ program: String, arguments: [String], variables: [(name: String, value: String)], giving descriptor: Int32
    ) throws(SystemFault) {
        var actions = unsafe posix_spawn_file_actions_t()
        unsafe posix_spawn_file_actions_init(&actions)
        defer { unsafe posix_spawn_file_actions_destroy(&actions) }
        unsafe posix_spawn_file_actions_adddup2(&actions, descriptor, Self.givenDescriptor)
        unsafe clinux_spawn_closing_from(&actions, Self.givenDescriptor + 1)
        var words = unsafe ([program] + arguments).map { unsafe strdup($0) } + [nil]
        var pairs = unsafe variables.map { unsafe strdup("\($0.name)=\($0.value)") } + [nil]
        // swift-format-ignore
        defer { for unsafe text in unsafe words + pairs { unsafe free(text) } }
        var pid: pid_t = 0
        let number = unsafe posix_spawnp(&pid, program, &actions, nil, &words, &pairs)
        guard number == 0 else { throw SystemFault("start \(program)", errno: number) }
        self.pid = pid
    }

    package func signal(_ signal: ProcessSignal) { kill(pid, signal.number) }

    /// Whether the child has ended. Not after `end`.
    package var hasEnded: Bool {
        var status: Int32 = 0
        return unsafe waitpid(pid, &status, WNOHANG) == pid
    }

    /// Waits for the child's end, kills it after so many milliseconds, and returns how it ended, for the log. Blocks. Call it once.
    package func end(within milliseconds: Int = 0) -> String {
        guard let status = status(within: milliseconds) else { return "has ended" }
        let signal = status & 0x7F
        return signal == 0 ? "has ended with \(status >> 8 & 0xFF)" : "was ended by signal \(signal)"
    }

    /// The same for a child that ends by itself: its exit code, or nil for one that had to be killed. Blocks. Call it once.
    package func exitCode(within milliseconds: Int) -> Int32? {
        status(within: milliseconds).flatMap { $0 & 0x7F == 0 ? $0 >> 8 & 0xFF : nil }
    }

    private func status(within milliseconds: Int) -> Int32? {
        var status: Int32 = 0
        var left = milliseconds
        while left > 0, unsafe waitpid(pid, &status, WNOHANG) == 0 {
            // The control thread may sleep.
            usleep(10_000)
            left -= 10
        }
        if left <= 0 {
            kill(pid, SIGKILL)
            while unsafe waitpid(pid, &status, 0) < 0 { guard errno == EINTR else { return nil } }
        }
        return status
    }
}
