import Gate
import HTTP
import Wire

/// What one turn of the loop works in: buffers and parsed heads that belong to no connection.
struct Scratch: ~Copyable {
    /// Where bytes are received; moved out while a connection works on them.
    var input = ByteBuffer(capacity: AdaptiveReadSize.most + 64 * 1_024)
    var output = ByteBuffer(capacity: 64 * 1_024)
    var request = RequestHead()
    var response = ResponseHead()
    var trailers = FieldTable()
    var decision = Decision()
    var due: [Int] = []
    /// A large buffer that nobody works in: for when a connection has kept the one it was working in.
    private var spare = ByteBuffer()

    static var leastSpare: Int { 64 * 1_024 }

    mutating func takeInput() -> ByteBuffer {
        var taken = ByteBuffer()
        swap(&taken, &input)
        if taken.capacity == 0 { swap(&taken, &spare) }
        return taken
    }

    /// Takes the memory of a buffer that is used up.
    mutating func recycle(_ buffer: inout ByteBuffer) {
        if spare.capacity == 0, buffer.capacity >= Self.leastSpare {
            buffer.removeAll()
            swap(&spare, &buffer)
        } else {
            buffer = ByteBuffer()
        }
    }

    mutating func putBack(_ buffer: consuming ByteBuffer) {
        buffer.removeAll()
        input = buffer
    }
}
