package import Wire

/// Arguments of a call as the server reads them, each a bulk string.
package struct RedisArguments: ~Copyable {
    @usableFromInline package internal(set) var bytes = ByteBuffer()
    package private(set) var count = 0

    /// None yet.
    package init() {}

    package mutating func removeAll() {
        bytes.removeAll()
        count = 0
    }

    /// Appends one argument, of any bytes.
    package mutating func append(_ argument: RawSpan) {
        begin(argument.byteCount)
        bytes.append(argument)
        end()
    }

    /// Appends one argument: a number in decimal.
    package mutating func append(decimal value: UInt64) {
        var (rest, digits) = (value, 0)
        while rest >= DecimalDigits.bound {
            rest /= DecimalDigits.bound
            digits += 8
        }
        append(byteCount: digits + DecimalDigits(rest).count) { $0.append(decimal: value) }
    }

    /// Appends one argument of `byteCount` bytes, which `write` appends.
    @inlinable @inline(__always)
    package mutating func append(byteCount: Int, _ write: (inout ByteBuffer) -> Void) {
        begin(byteCount)
        let before = bytes.count
        write(&bytes)
        precondition(bytes.count == before + byteCount, "an argument of another length than was said")
        end()
    }

    /// Appends arguments that were put together before.
    package mutating func append(_ others: borrowing RedisArguments) {
        bytes.append(others.bytes.readable)
        count += others.count
    }

    /// What stands before an argument of so many bytes; mostly a word.
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

/// A call of a script being put together, in memory that the next call uses again.
package struct RedisCall: ~Copyable {
    /// nil before the first `begin`.
    private(set) var script: RedisScriptID?
    /// How many of the arguments are keys: the first.
    package var keys = 0
    /// The keys, then what the script gets as ARGV.
    package var arguments = RedisArguments()

    package init() {}

    /// Begins a call with so many keys for now; all its arguments follow.
    package mutating func begin(_ script: RedisScriptID, keys: Int = 0) {
        self.script = script
        self.keys = keys
        arguments.removeAll()
    }

    /// Appends the call as the server reads it, an array of bulk strings; `sha` is what the server calls the script.
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

    /// At most so many bytes are sent for it, its head included.
    var size: Int { arguments.bytes.count + 128 }
}
