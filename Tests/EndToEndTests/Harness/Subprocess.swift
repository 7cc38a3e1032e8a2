import Foundation
import Glibc
import Synchronization

/// A command that runs: its lines can be waited for, and it ends with its owner at the latest.
final class Subprocess: Sendable {
    let pid: pid_t
    /// Whole lines, without their ends.
    let output = Watched<[String]>([])
    let complaints = Watched<[String]>([])
    /// The exit code, or 128 and the signal that ended it.
    private let exit = Watched<Int32?>(nil)
    /// How many of both streams have ended.
    private let streamsEnded = Watched(0)
    /// The command's standard input; -1 once it has ended.
    private let input: Int32

    /// `environment` is all that the command finds there, beside a usual PATH; `descriptors` are open there, each under its
    /// number.
    init(
        _ path: String, _ arguments: [String], environment: [String: String] = [:], input text: String? = nil,
        descriptors: [Int32: Int32] = [:]
    ) throws {
        let (pid, pipes) = try Self.spawning.withLock { _ in try Self.spawn(path, arguments, environment, descriptors) }
        self.pid = pid
        if let text {
            Self.write(text, to: pipes.input)
            Glibc.close(pipes.input)
        }
        input = text == nil ? pipes.input : -1
        Self.collect(pipes.output, into: output, streamsEnded)
        Self.collect(pipes.complaints, into: complaints, streamsEnded)
        let exit = exit
        Thread.detachNewThread {
            var status: Int32 = 0
            while waitpid(pid, &status, 0) < 0, errno == EINTR {}
            exit.change { $0 = status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + (status & 0x7F) }
        }
    }

    deinit {
        kill()
        if input >= 0 { Glibc.close(input) }
    }

    func say(_ text: String) { Self.write(text, to: input) }

    /// A command that has ended fails the write; the signal would end the tests.
    private static func write(_ text: String, to descriptor: Int32) {
        var (broken, before) = (sigset_t(), sigset_t())
        sigemptyset(&broken)
        sigaddset(&broken, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &broken, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        let bytes = Array(text.utf8)
        _ = Glibc.write(descriptor, bytes, bytes.count)
        var none = timespec()
        _ = sigtimedwait(&broken, nil, &none)
    }

    func signal(_ number: Int32) {
        if exit.now == nil { Glibc.kill(pid, number) }
    }

    /// Holds it in the middle of whatever it does; answers when all its threads stand still.
    func pause() {
        signal(SIGSTOP)
        var info = siginfo_t()
        while waitid(P_PID, id_t(pid), &info, WSTOPPED) < 0, errno == EINTR {}
    }

    func resume() { signal(SIGCONT) }

    func kill() {
        signal(SIGKILL)
        // What was killed ends; should it not, no test can help it.
        _ = try? exit.wait(for: "the end of a killed command", until: { $0 != nil })
    }

    /// Waits for its end and the end of what it writes.
    func exitCode(seconds: Double = 60) throws -> Int32 {
        try exit.wait(for: "the end of a command", seconds: seconds, until: { $0 != nil })
        try streamsEnded.wait(for: "the end of a command's output", until: { $0 == 2 })
        return exit.now ?? -1
    }

    var isRunning: Bool { exit.now == nil }

    /// One at a time: between the making of a pipe and its mark nothing else may be started, or it would keep the pipe.
    private static let spawning = Mutex(())

    private static func spawn(
        _ path: String, _ arguments: [String], _ environment: [String: String], _ descriptors: [Int32: Int32]
    ) throws -> (pid_t, (input: Int32, output: Int32, complaints: Int32)) {
        let (outRead, outWrite) = try pipe()
        let (errorRead, errorWrite) = try pipe()
        let (inRead, inWrite) = try pipe()
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, inRead, 0)
        posix_spawn_file_actions_adddup2(&actions, outWrite, 1)
        posix_spawn_file_actions_adddup2(&actions, errorWrite, 2)
        // Out of the way of each other's numbers first.
        let copies = descriptors.mapValues { fcntl($0, F_DUPFD_CLOEXEC, 100) }
        defer { for copy in copies.values { Glibc.close(copy) } }
        for (number, copy) in copies { posix_spawn_file_actions_adddup2(&actions, copy, number) }
        let variables = ["PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"].merging(environment) { $1 }
        var argv = ([path] + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup("\($0)=\($1)") } + [nil]
        defer { (argv + envp).forEach { free($0) } }
        var pid: pid_t = 0
        let failure = posix_spawnp(&pid, path, &actions, nil, &argv, &envp)
        for descriptor in [outWrite, errorWrite, inRead] { Glibc.close(descriptor) }
        guard failure == 0 else {
            for descriptor in [outRead, errorRead, inWrite] { Glibc.close(descriptor) }
            throw Fault("\(path) cannot be started: \(String(cString: strerror(failure)))")
        }
        return (pid, (inWrite, outRead, errorRead))
    }

    /// Two ends that no command inherits unless it is given one.
    static func pipe() throws -> (read: Int32, write: Int32) {
        var ends: [Int32] = [0, 0]
        guard Glibc.pipe(&ends) == 0 else { throw Fault("no pipe: \(String(cString: strerror(errno)))") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static func collect(_ descriptor: Int32, into lines: Watched<[String]>, _ ended: Watched<Int>) {
        Thread.detachNewThread {
            var rest: [UInt8] = []
            var room = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = Glibc.read(descriptor, &room, room.count)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { break }
                rest += room[..<count]
                var whole: [String] = []
                while let end = rest.firstIndex(of: 10) {
                    whole.append(String(decoding: rest[..<end], as: UTF8.self))
                    rest.removeSubrange(...end)
                }
                lines.change { $0 += whole }
            }
            Glibc.close(descriptor)
            if !rest.isEmpty {
                let last = String(decoding: rest, as: UTF8.self)
                lines.change { $0.append(last) }
            }
            ended.change { $0 += 1 }
        }
    }
}

/// What a command that has ended left behind.
struct CommandOutcome {
    let code: Int32
    let output: String
    let complaints: String
}

/// Runs a command to its end.
func run(
    _ path: String, _ arguments: [String], environment: [String: String] = [:], input: String = "", seconds: Double = 240
) throws -> CommandOutcome {
    let process = try Subprocess(path, arguments, environment: environment, input: input)
    let code = try process.exitCode(seconds: seconds)
    return CommandOutcome(
        code: code, output: process.output.now.joined(separator: "\n"),
        complaints: process.complaints.now.joined(separator: "\n"))
}

/// Runs a command that must succeed; answers what it wrote.
@discardableResult
func mustRun(
    _ path: String, _ arguments: [String], environment: [String: String] = [:], input: String = "", seconds: Double = 240
) throws -> String {
    let outcome = try run(path, arguments, environment: environment, input: input, seconds: seconds)
    guard outcome.code == 0 else { throw Fault("\(path) \(arguments) ended with \(outcome.code): \(outcome.complaints)") }
    return outcome.output
}

/// A folder that goes away with its owner.
final class Folder: Sendable {
    let path: String

    init() throws {
        var template = Array("/tmp/tollgate-e2e-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw Fault("no folder in /tmp") }
        path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    func file(_ name: String) -> String { path + "/" + name }

    /// Writes a file whole: nobody sees half of it.
    @discardableResult
    func write(_ name: String, _ text: String) throws -> String {
        try Data(text.utf8).write(to: URL(fileURLWithPath: file(name)), options: .atomic)
        return file(name)
    }

    func read(_ name: String) throws -> String { try String(contentsOfFile: file(name), encoding: .utf8) }
}
