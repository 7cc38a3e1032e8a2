import Wire

/// The standard health check of gRPC, `grpc.health.v1.Health/Check`, about the server as a whole: its request, and a reader of its
/// answer.
package struct GRPCHealthCheck: Sendable {
    package static let path: StaticString = "/grpc.health.v1.Health/Check"

    /// Content of the request: one message, not compressed and without fields.
    package static let request: StaticString = "\0\0\0\0\0"

    /// An answer has a message of a few bytes; one that is longer is none.
    private static let longest = 1_024
    /// `HealthCheckResponse.status`, field 1, and its value SERVING.
    private static let statusField: UInt64 = 1
    private static let serving: UInt64 = 1

    private var content: [UInt8] = []
    private var isTooLong = false
    private var isOK = false

    /// A check that has no answer yet.
    package init() {}

    /// Content of the answer has come.
    package mutating func received(_ bytes: RawSpan) {
        guard content.count + bytes.byteCount <= Self.longest else {
            isTooLong = true
            return
        }
        content += bytes.array
    }

    /// The answer has ended with these trailers.
    package mutating func ended(_ trailers: borrowing FieldTable, _ bytes: RawSpan) {
        for index in 0..<trailers.count
        where trailers[index].known == .other && bytes[trailers[index].name].equalsIgnoringCase("grpc-status") {
            isOK = bytes[trailers[index].value].equals("0")
        }
    }

    /// Whether the answer, which has ended, says that the server serves.
    package var isServing: Bool {
        let bytes = content.rawBytes
        guard isOK, !isTooLong, let message = Self.message(bytes) else { return false }
        return Self.status(bytes.extracting(message)) == Self.serving
    }

    /// Where the only message of the content stands (a flag, its length in four bytes, itself); nil if there is none, or more.
    private static func message(_ bytes: RawSpan) -> Range<Int>? {
        guard bytes.byteCount >= 5, bytes[0] == 0 else { return nil }
        var length = 0
        for offset in 1..<5 { length = length << 8 | Int(bytes[offset]) }
        return bytes.byteCount == 5 + length ? 5..<5 + length : nil
    }

    /// The value of the last field `status` of a protobuf message, 0 without one; nil if the message is malformed.
    private static func status(_ message: RawSpan) -> UInt64? {
        var status: UInt64 = 0
        var offset = 0
        while offset < message.byteCount {
            guard let tag = varint(message, &offset) else { return nil }
            switch tag & 7 {
            case 0:
                guard let value = varint(message, &offset) else { return nil }
                if tag >> 3 == statusField { status = value }
            case 1: offset += 8
            case 2:
                guard let length = varint(message, &offset), length <= longest else { return nil }
                offset += Int(length)
            case 5: offset += 4
            default: return nil
            }
        }
        return offset == message.byteCount ? status : nil
    }

    private static func varint(_ bytes: RawSpan, _ offset: inout Int) -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard offset < bytes.byteCount else { return nil }
            let byte = bytes[offset]
            offset += 1
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }
}
