internal import Glibc
internal import Transport

@main
struct Tollgate {
    static func main() { Process.run() }
}

/// The process around a command: its arguments, environment and standard streams.
enum Process {
    static func run() -> Never {
        var runner = CommandRunner(
            environment: environment, now: EventLoop.now(), readInput: readInput, writeError: { write($0, to: STDERR_FILENO) },
            ask: isatty(STDIN_FILENO) == 0 ? nil : ask)
        runner.showsProgress = isatty(STDERR_FILENO) == 1
        let result = runner.run(Array(CommandLine.arguments.dropFirst()))
        write(result.errorOutput, to: STDERR_FILENO)
        write(result.output, to: STDOUT_FILENO)
        end(result.exitCode)
    }

    /// Ends the process. Not by `exit`: it runs the clean-up of C libraries (OpenSSL frees its algorithms) while threads that are left
    /// still use them. Nothing waits in the C library's buffers: `write` and the logs go to their descriptors.
    private static func end(_ code: Int32) -> Never { _exit(code) }

    private static var environment: [(name: String, value: String)] {
        var variables: [(name: String, value: String)] = []
        // No other thread runs yet that could change it.
        var next = unsafe environ
        while let entry = unsafe next.pointee {
            let text = unsafe String(cString: entry)
            if let equals = text.firstIndex(of: "=") {
                variables.append((String(text[..<equals]), String(text[text.index(after: equals)...])))
            }
            unsafe next += 1
        }
        return variables
    }

    private static let readInput: @Sendable () -> String = {
        var text = ""
        while let line = readLine(strippingNewline: false), text.utf8.count < 1 << 20 { text += line }
        return text
    }

    private static let ask: @Sendable (String) -> String? = { prompt in
        write(prompt, to: STDERR_FILENO)
        return readLine()
    }

    private static func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno == EINTR { continue }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }
}
