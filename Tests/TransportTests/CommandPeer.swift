import Foundation
import Synchronization
import System
import Testing
import Threads
import Transport
import Wire

/// A running command with input and awaited output.
final class CommandPeer {
    private let process = Process()
    private let input = Pipe()
    private let output = Pipe()
    /// Output not yet awaited.
    private var printed = ""

    init(_ command: String, _ arguments: [String]) throws {
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [command] + arguments
        process.standardInput = input
        process.standardOutput = output
        process.standardError = output
        // A peer that has ended fails the write; the signal would end the tests.
        try Signals.block([])
        try process.run()
    }

    deinit {
        if process.isRunning { process.terminate() }
        process.waitUntilExit()
    }

    func say(_ text: String) throws { try input.fileHandleForWriting.write(contentsOf: Data(text.utf8)) }

    /// Waits until the command has printed `text`, which it must do within thirty seconds; answers what came before it.
    @discardableResult
    func hear(_ text: String) throws -> String {
        let handle = output.fileHandleForReading
        while true {
            if let found = printed.range(of: text) {
                defer { printed.removeSubrange(..<found.upperBound) }
                return String(printed[..<found.lowerBound])
            }
            guard wait(Socket(descriptor: handle.fileDescriptor), for: POLLIN) else {
                throw TestFault("not heard: \(text) in \(printed)")
            }
            let data = handle.availableData
            guard !data.isEmpty else { throw TestFault("ended without: \(text) in \(printed)") }
            printed += String(decoding: data, as: UTF8.self)
        }
    }

    /// Its output up to the end.
    func end() throws -> String {
        try input.fileHandleForWriting.close()
        printed += String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        return printed
    }
}

/// Serves TLS connections one after the other on a thread of its own: reads a line, answers with what the session is
/// and the line, and closes.
final class LineServer: Sendable {
    let address: SocketAddress
    private let thread: WorkerThread
    /// One entry for each connection: what was answered, or why nothing was.
    let heard: Mailbox<String>

    init(_ context: TLSServerContext, connections: Int = 1) throws {
        let (listener, address) = try listenLocally()
        let heard = Mailbox<String>(waker: try Waker())
        self.address = address
        self.heard = heard
        thread = try WorkerThread(name: "lines") {
            for _ in 0..<connections {
                do {
                    let (socket, _) = try accept(listener)
                    var end = try TLSEnd(context, socket)
                    heard.post(try end.serveLines())
                } catch {
                    heard.post("\(error)")
                }
            }
            listener.close()
        }
    }

    func join() -> [String] {
        thread.join()
        return heard.take()
    }
}

extension TLSEnd {
    /// Answers lines until one says `bye` or the peer ends; answers the last answer.
    mutating func serveLines() throws -> String {
        let outcome = try handshake()
        guard outcome == .done else { return "\(outcome)" }
        let resumed = session.wasResumed ? "resumed" : "new"
        let about = "\(session.version) \(session.alpn ?? "-") \(resumed)"
        while true {
            var line: [UInt8] = []
            while line.last != UInt8(ascii: "\n") { line += try read(1) }
            try write(Array("<\(about): ".utf8) + line.dropLast() + Array(">\n".utf8))
            if line == Array("bye\n".utf8) { break }
        }
        session.closeNotify()
        return about
    }
}
