import Wire

/// The parts of gRPC over HTTP/2 that the gateway reads in a request, whatever version of HTTP carries it.
extension RequestHead {
    /// Whether it is a request of gRPC, by its `Content-Type`: `application/grpc` alone, with a message format (`+proto`) or with
    /// parameters. gRPC-Web (`application/grpc-web`) is ordinary HTTP.
    package func isGRPC(_ bytes: RawSpan) -> Bool {
        guard let index = fields.first(.contentType) else { return false }
        return bytes[fields[index].value].isMediaTypeOfGRPC
    }

    /// The value of `grpc-timeout`, for a request of gRPC.
    package func grpcTimeout(_ bytes: RawSpan) -> GRPCTimeoutField {
        var found: GRPCTimeout?
        for index in 0..<fields.count where fields[index].isGRPCTimeout(bytes) {
            guard found == nil, let timeout = GRPCTimeout(bytes[fields[index].value]) else { return .malformed }
            found = timeout
        }
        return found.map { .timeout($0) } ?? .none
    }
}

extension ResponseHead {
    /// Whether it is an answer of gRPC, by its `Content-Type`.
    package func isGRPC(_ bytes: RawSpan) -> Bool {
        guard let index = fields.first(.contentType) else { return false }
        return bytes[fields[index].value].isMediaTypeOfGRPC
    }
}

/// How a request of gRPC limits its time.
package enum GRPCTimeoutField: Equatable, Sendable {
    case none
    case timeout(GRPCTimeout)
    /// It is not written as the protocol demands, or there are several.
    case malformed
}

extension Field {
    /// Whether it is `grpc-timeout`.
    package func isGRPCTimeout(_ bytes: RawSpan) -> Bool {
        known == .other && name.count == 12 && bytes[name].equalsIgnoringCase("grpc-timeout")
    }
}

extension RawSpan {
    /// Whether a `Content-Type` of this value is gRPC's.
    package var isMediaTypeOfGRPC: Bool {
        let name: StaticString = "application/grpc"
        let count = name.utf8CodeUnitCount
        guard byteCount >= count, extracting(0..<count).equalsIgnoringCase(name) else { return false }
        guard byteCount > count else { return true }
        let next = self[count]
        return next == UInt8(ascii: "+") || next == UInt8(ascii: ";") || ByteClass.isBlank(next)
    }
}
