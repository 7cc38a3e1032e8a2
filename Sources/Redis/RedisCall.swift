package import Wire

/// Arguments of a call, encoded as RESP bulk strings.
package struct RedisArguments: ~Copyable {
    @usableFromInline package internal(set) var bytes = ByteBuffer()
    package private(set) var count = 0

    /// Empty.
    package init() {}

    package mutating func removeAll() {
        bytes.removeAll()
        count = 0
    }

    /// Appends an argument of any bytes.
    package mutating func append(_ argument: RawSpan) {
        begin(argument.byteCount)
        bytes.append(argument)
        end()
    }

    /// Appends a number in decimal.
    package mutating func append(decimal value: UInt64) {
        var (rest, digits) = (value, 0)
        while rest >= DecimalDigits.bound {
            rest /= DecimalDigits.bound
            digits += 8
        }
        append(byteCount: digits + DecimalDigits(rest).count) { $0.append(decimal: value) }
    }

    /// Appends an argument of exactly `byteCount` bytes, written by `write`.
    @inlinable @inline(__always)
    package mutating func append(byteCount: Int, _ write: (inout ByteBuffer) -> Void) {
        begin(byteCount)
        let before = bytes.count
        write(&bytes)
        precondition(bytes.count == before + byteCount, "an argument of another length than was said")
        end()
    }

    /// Appends arguments encoded before.
    package mutating func append(_ others: borrowing RedisArguments) {
        bytes.append(others.bytes.readable)
        count += others.count
    }

    /// Writes the length of an argument; usually one word.
    @usableFromInline package mutating func begin(_ byteCount: Int) {
        let (tens, ones) = (UInt64(byteCount / 10) | 0x30, UInt64(byteCount % 10) | 0x30)
        if byteCount < 10 {
            bytes.append(lowBytes: 0x0A0D_0024 | ones << 8, count: 4)
        } else if byteCount < 100 {
            bytes.append(lowBytes: 0x0A_0D00_0024 | tens << 8 | ones << 16, count: 5)
        } else {
            bytes.append(UInt8(ascii: "$"))
            bytes.append(decimal: byteCount)
            bytes.append("\r\n")
        }
    }

    @usableFromInline package mutating func end() {
        bytes.append(lowBytes: 0x0A0D, count: 2)
        count += 1
    }
}

/// Builder of a script call; its memory is reused.
package struct RedisCall: ~Copyable {
    /// nil before the first `begin`.
    private(set) var script: RedisScriptID?
    /// Number of leading arguments that are keys.
    package var keys = 0
    /// Keys, then ARGV.
    package var arguments = RedisArguments()

    package init() {}

    /// Begins a call. `keys` may be raised while arguments are appended.
    package mutating func begin(_ script: RedisScriptID, keys: Int = 0) {
        self.script = script
        self.keys = keys
        arguments.removeAll()
    }

    /// Appends the call as EVALSHA with the server's digest of the script.
    func write(sha: [UInt8], to out: inout ByteBuffer) {
        out.append("*")
        out.append(decimal: 3 + arguments.count)
        out.append("\r\n$7\r\nEVALSHA\r\n$")
        out.append(decimal: sha.count)
        out.append("\r\n")
        out.append(sha)
        out.append("\r\n$")
        out.append(decimal: DecimalDigits(UInt64(keys)).count)
        out.append("\r\n")
        out.append(decimal: keys)
        out.append("\r\n")
        out.append(arguments.bytes.readable)
    }

    /// Upper bound of its encoded length.
    var size: Int { arguments.bytes.count + 128 }
}
