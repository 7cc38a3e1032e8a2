import Accounts
import Foundation
import Storage
import TestServers
import Testing

/// Another program that writes the SQLite file too.
@Suite struct WriteLockTests {
    /// Each call waits for the lock from when it was made, not from when the one before it gave up.
    @Test func callsThatWaitForAHeldLockGiveUpTogether() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        try await bench.store.prepare()
        let other = try Other(bench.location, Self.keepsTheLock)
        let clock = ContinuousClock()
        let (ends, refusals) = await withTaskGroup(of: (ContinuousClock.Instant, StoreFault?).self) { group in
            for number in 0..<12 {
                group.addTask {
                    let refusal = await fault { _ = try await bench.store.opened("user\(number)@x") }
                    return (clock.now, refusal)
                }
            }
            return await group.reduce(into: ([ContinuousClock.Instant](), [StoreFault?]())) { all, one in
                all.0.append(one.0)
                all.1.append(one.1)
            }
        }
        #expect(refusals.allSatisfy { $0 == .unavailable("another program kept the write lock of the database") }, "\(refusals)")
        // One after the other they would take 22 s.
        #expect(try #require(ends.min()).duration(to: #require(ends.max())) < .seconds(10))
        other.end()
        _ = try await bench.store.opened("after@x")
    }

    /// It leaves the lock free for moments only, which a waiting call must not sleep through.
    @Test func aProgramThatWritesWithoutAPauseDoesNotShutThisOneOut() async throws {
        let bench = try Backend.sqlite.bench()
        defer { bench.end() }
        try await bench.store.prepare()
        let other = try Other(
            bench.location,
            """
            rounds = 0
            print(flush=True)
            while True:
                c.execute('BEGIN IMMEDIATE'); time.sleep(0.005); c.execute('COMMIT')
                rounds += 1
                if not select.select([sys.stdin], [], [], 0.0001)[0]: continue
                if not sys.stdin.readline(): break
                print(rounds, flush=True)
            """)
        var rounds = 0
        for number in 0..<30 {
            _ = try await bench.store.opened("user\(number)@x")
            rounds = try other.round()
        }
        other.end()
        // They are 200; with SQLite's own pauses, 1,200.
        #expect(rounds < 700)
    }

    /// A script of `Other`.
    static let keepsTheLock = "c.execute('BEGIN IMMEDIATE'); print(flush=True); sys.stdin.read()"

    /// A program in Python with the file open as `c`; `script` prints a line when it has begun, and ends with its input.
    struct Other {
        private let process = Foundation.Process()
        private let input = Pipe()
        private let output = Pipe()

        init(_ location: StoreLocation?, _ script: String) throws {
            guard case .sqlite(let path)? = location else { throw Fault("no file") }
            process.executableURL = URL(filePath: "/usr/bin/env")
            let beginning = "import select, sqlite3, sys, time\nc = sqlite3.connect(sys.argv[1], 60, isolation_level=None)\n"
            process.arguments = ["python3", "-c", beginning + script, path]
            (process.standardInput, process.standardOutput) = (input, output)
            try process.run()
            guard try output.fileHandleForReading.read(upToCount: 1) != nil else { throw Fault("the other program does not begin") }
        }

        /// Waits until the program has had the lock once more, and answers how often it has had it.
        func round() throws -> Int {
            try input.fileHandleForWriting.write(contentsOf: Data("\n".utf8))
            var digits = ""
            while let byte = try output.fileHandleForReading.read(upToCount: 1) {
                if byte[0] == UInt8(ascii: "\n") { return try #require(Int(digits)) }
                digits.unicodeScalars.append(Unicode.Scalar(byte[0]))
            }
            throw Fault("the other program has ended")
        }

        func end() {
            // It may have ended by itself.
            try? input.fileHandleForWriting.close()
            process.waitUntilExit()
        }
    }
}
