import TestThreads
import Testing
import Wire

@testable import Redis

@Suite(.ownThread) struct CommandTests {
    private func bytes(_ command: borrowing RedisCommand) -> String {
        var out = ByteBuffer()
        RedisCommandFormat.append(command, to: &out)
        return out.readable.text
    }

    @Test func `a command is an array of its arguments`() {
        var command = RedisCommand()
        command.begin()
        command.append("SET")
        command.append { $0.append("a key") }
        command.append { out in
            out.append("x")
            out.append(decimal: 12)
        }
        command.append(decimal: -7)
        command.append("")
        #expect(bytes(command) == "*5\r\n$3\r\nSET\r\n$5\r\na key\r\n$3\r\nx12\r\n$2\r\n-7\r\n$0\r\n\r\n")
        command.begin()
        command.append("PING")
        #expect(bytes(command) == "*1\r\n$4\r\nPING\r\n")
    }

    /// hiredis is the oracle.
    @Test func `a call of a script is formatted as hiredis would`() {
        var random = SplitMix64(seed: 5)
        var scripts = RedisScripts()
        let script = scripts.register(RedisScript(name: "take", source: "return 1"))
        let sha = (0..<40).map { _ in UInt8(ascii: "0") + UInt8(random.next() % 10) }
        var call = RedisCall()
        var later = RedisArguments()
        var plain = RedisCommand()
        for round in 0..<500 as Range<UInt64> {
            let keys = Int(random.next() % (round % 2 == 0 ? 4 : 150))
            call.begin(script, keys: keys)
            plain.begin()
            plain.append("EVALSHA")
            plain.append { $0.append(sha) }
            plain.append(decimal: keys)
            for _ in 0..<(random.next() % 12) {
                let argument = (0..<(random.next() % 150)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
                call.arguments.append(argument.rawBytes)
                plain.append { $0.append(argument) }
            }
            later.removeAll()
            for number in [0, 9, 10, 99_999_999, 100_000_000, .max, random.next() >> (round % 64)] as [UInt64] {
                later.append(decimal: number)
                plain.append { $0.append(decimal: number) }
            }
            call.arguments.append(later)
            call.arguments.append(byteCount: 3) { $0.append("abc") }
            plain.append("abc")
            var made = ByteBuffer()
            call.write(sha: sha, to: &made)
            var expected = ByteBuffer()
            RedisCommandFormat.append(plain, to: &expected)
            #expect(made.readable.array == expected.readable.array)
            #expect(made.count <= call.size && expected.count <= plain.size)
        }
    }

    @Test(arguments: [
        ("OOM command not allowed when used memory > 'maxmemory'.", RedisErrorKind.outOfMemory),
        ("READONLY You can't write against a read only replica.", .readOnly),
        ("LOADING Redis is loading the dataset in memory", .loading),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", .masterDown),
        ("BUSY Redis is busy running a script.", .busy), ("MISCONF Redis is configured to save RDB snapshots", .cannotPersist),
        ("NOREPLICAS Not enough good replicas to write.", .tooFewReplicas), ("NOAUTH Authentication required.", .notAuthenticated),
        ("WRONGPASS invalid username-password pair or user is disabled.", .notAuthenticated),
        ("NOPERM this user has no permissions to run the 'evalsha' command", .notPermitted),
        ("CLUSTERDOWN The cluster is down", .cluster), ("MOVED 3999 127.0.0.1:6381", .cluster), ("ASK 3999 127.0.0.1:6381", .cluster),
        ("TRYAGAIN Multiple keys request during rehashing of slot", .cluster), ("CROSSSLOT Keys in request", .cluster),
        ("NOSCRIPT No matching script. Please use EVAL.", .noScript), ("OOM", .outOfMemory),
        ("ERR unknown command", .command), ("WRONGTYPE Operation against a key", .command), ("", .command), ("OOMY no", .command),
        ("ERR OOM is only a word here", .command),
        (
            "ERR Error running script (call to f_6b1b): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
            .outOfMemory
        ),
        ("ERR Error running script (call to f_6b1b): @user_script:1: -READONLY You can't write against a read only slave.", .readOnly),
        ("ERR Error running script (call to f_6b1b): @user_script:1: attempt to call nil-value", .command),
        // Read once, however many dashes there are.
        ("ERR Error running script \(String(repeating: "-", count: 250_000))", .command),
        ("ERR Error running script \(String(repeating: "-", count: 9))OOM command not allowed", .outOfMemory),
        ("NOREPLICAS-and-more-than-any-kind", .command), ("OOM-command-not-allowed when", .command),
    ])
    func `an error's kind is its first word`(_ text: String, _ kind: RedisErrorKind) {
        #expect(text.withRawBytes { RedisErrorKind($0) } == kind)
        #expect(kind.isOutage == (kind != .command))
    }
}
