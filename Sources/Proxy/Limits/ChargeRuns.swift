import Gate
import Redis
import Wire

/// What becomes of charges in a call of `GCRAScript`: their keys, then the numbers by which they are counted, once for each run
/// of charges that have them in common. Uses the same memory for each call.
struct ChargeRuns: ~Copyable {
    /// The runs that have ended, as arguments.
    private var ended = RedisArguments()
    /// Charges of the run that has not; 0 before the first.
    private var length: UInt64 = 0
    /// Its numbers, and what they come to as arguments.
    private var numbers = LimitNumbers(repeating: 0)
    private var written = RedisArguments()

    /// Appends a charge to `call`, which was begun and has keys alone.
    mutating func append(_ command: inout LimitCommand, to call: inout RedisCall) {
        for index in 0..<command.count {
            call.arguments.append(byteCount: GCRAScript.keyLength) { command.writeKey(index, into: &$0) }
        }
        call.keys += command.count
        if command.update(&numbers) {
            // What is written are still the numbers of the run that ends here.
            if length > 0 { endRun() }
            written.removeAll()
            for index in 0..<2 + 2 * command.count { written.append(decimal: numbers[index]) }
        }
        length += 1
    }

    /// The call has all its charges.
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
