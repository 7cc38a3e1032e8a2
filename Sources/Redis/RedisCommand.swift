package import Wire

/// Builder of a plain command; its memory is reused.
package struct RedisCommand: ~Copyable {
    private(set) var texts = ByteBuffer()
    /// End of each argument in `texts`.
    private(set) var ends: [Int] = []

    /// Empty; call `begin` first.
    package init() {}

    /// Begins a command; its name is the first argument.
    package mutating func begin() {
        texts.removeAll()
        ends.removeAll(keepingCapacity: true)
    }

    /// Appends an argument of any bytes.
    package mutating func append(_ argument: RawSpan) {
        texts.append(argument)
        ends.append(texts.count)
    }

    /// Appends an argument.
    package mutating func append(_ argument: StaticString) {
        texts.append(argument)
        ends.append(texts.count)
    }

    /// Appends a number in decimal.
    package mutating func append(decimal value: Int) {
        texts.append(decimal: value)
        ends.append(texts.count)
    }

    /// Appends an argument written by `write`, which must only append.
    package mutating func append(_ write: (inout ByteBuffer) -> Void) {
        write(&texts)
        precondition(texts.count >= ends.last ?? 0, "an argument that shortens the one before it")
        ends.append(texts.count)
    }

    /// Upper bound of its encoded length.
    var size: Int { texts.count + 16 * (ends.count + 1) }
}
