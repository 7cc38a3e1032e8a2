package import HTTP
import Wire

/// Status codes of gRPC that the gateway itself answers with.
package enum GRPCStatus: Int, Sendable {
    case invalidArgument = 3
    case deadlineExceeded = 4
    case permissionDenied = 7
    case resourceExhausted = 8
    case failedPrecondition = 9
    case unimplemented = 12
    case internalError = 13
    case unavailable = 14
    case unauthenticated = 16

    /// The status of a refusal.
    package init(_ refusal: Refusal) {
        switch refusal {
        // The bytes are at fault, not the arguments of a call.
        case .badRequest(.http), .badRequest(.grpcTimeout): self = .internalError
        case .badRequest(.path), .badRequest(.severalAuthorizations), .badRequest(.repeatedField), .badRequest(.keyBesideToken),
            .badRequest(.handshake), .badRequest(.description), .upgradeRequired, .expectationFailed:
            self = .invalidArgument
        case .unauthorized: self = .unauthenticated
        case .forbidden, .premiumRequired, .addressDenied, .attestationRequired: self = .permissionDenied
        // A retired method is one that the service does not have.
        case .notFound, .methodNotAllowed, .notImplemented, .versionNotSupported, .gone: self = .unimplemented
        case .payloadTooLarge, .uriTooLong, .headersTooLarge, .rateLimited: self = .resourceExhausted
        case .badGateway, .unavailable, .upstreamError, .maintenance: self = .unavailable
        // The call cannot succeed before the user has done something else.
        case .appUpdateRequired: self = .failedPrecondition
        case .timeout, .requestTimeout: self = .deadlineExceeded
        case .internalError: self = .internalError
        }
    }
}

extension Refusal {
    /// Adds `grpc-status`, `grpc-message` and, in place of `Retry-After`, `grpc-retry-pushback-ms`: the end of an answer of gRPC.
    /// `message`: one in place of the sentence.
    package func addGRPCStatus(_ message: String? = nil, to edits: inout FieldEdits) {
        edits.add("grpc-status", decimal: GRPCStatus(self).rawValue)
        var encoded = ByteBuffer(capacity: 128)
        if let message {
            message.withRawBytes { GRPCMessage.append($0, to: &encoded) }
        } else {
            GRPCMessage.append(sentence.rawBytes, to: &encoded)
        }
        edits.add("grpc-message", encoded.readable)
        if let seconds = retryAfterSeconds {
            // Clients read a signed number of 32 bits.
            edits.add("grpc-retry-pushback-ms", decimal: min(Int(seconds) * 1_000, Int(Int32.max)))
        }
    }
}
