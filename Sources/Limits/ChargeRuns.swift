import Gate
import Redis
import Wire

/// Arguments of a call of `GCRAScript` with many charges: their keys, then their rates, once for each run of charges with the same
/// rates. Reuses its memory for each call.
struct ChargeRuns: ~Copyable {
    /// Completed runs, as arguments.
    private var ended = RedisArguments()
    /// Charges of the current run; 0 before the first.
    private var length: UInt64 = 0
    /// Its numbers, and the same as arguments.
    private var numbers = LimitNumbers(repeating: 0)
    private var written = RedisArguments()

    /// Appends a charge to `call`, which was begun and holds only keys so far.
    ///
    /// - Parameter isTagged: whether keys have hash tags.
    mutating func append(_ command: inout LimitCommand, isTagged: Bool = false, to call: inout RedisCall) {
        for index in 0..<command.count {
            if isTagged {
                call.arguments.append(byteCount: command.keyLength(index)) { command.writeTaggedKey(index, into: &$0) }
            } else {
                call.arguments.append(byteCount: GCRAScript.keyLength) { command.writeKey(index, into: &$0) }
            }
        }
        call.keys += command.count
        if command.update(&numbers) {
            // `written` still holds the numbers of the run that ends here.
            if length > 0 { endRun() }
            written.removeAll()
            for index in 0..<2 + 2 * command.count { written.append(decimal: numbers[index]) }
        }
        length += 1
    }

    /// Completes the call.
    mutating func end(_ call: inout RedisCall) {
        endRun()
        call.arguments.append(ended)
        ended.removeAll()
    }

    private mutating func endRun() {
        ended.append(decimal: length)
        ended.append(written)
        length = 0
    }
}
