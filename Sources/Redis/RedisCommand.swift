package import Wire

/// One command of the server's being put together: its arguments as bytes, in memory that the next command uses again.
package struct RedisCommand: ~Copyable {
    private(set) var texts = ByteBuffer()
    /// Where each argument ends in `texts`.
    private(set) var ends: [Int] = []

    /// Nothing yet: `begin` comes first.
    package init() {}

    /// Begins a command, whose words follow, the first of them its name.
    package mutating func begin() {
        texts.removeAll()
        ends.removeAll(keepingCapacity: true)
    }

    /// Appends one argument, of any bytes.
    package mutating func append(_ argument: RawSpan) {
        texts.append(argument)
        ends.append(texts.count)
    }

    /// Appends one argument.
    package mutating func append(_ argument: StaticString) {
        texts.append(argument)
        ends.append(texts.count)
    }

    /// Appends one argument: a number in decimal.
    package mutating func append(decimal value: Int) {
        texts.append(decimal: value)
        ends.append(texts.count)
    }

    /// Appends one argument that `write` puts together from pieces; it must only append.
    package mutating func append(_ write: (inout ByteBuffer) -> Void) {
        write(&texts)
        precondition(texts.count >= ends.last ?? 0, "an argument that shortens the one before it")
        ends.append(texts.count)
    }

    /// At most so many bytes are sent for it.
    var size: Int { texts.count + 16 * (ends.count + 1) }
}
