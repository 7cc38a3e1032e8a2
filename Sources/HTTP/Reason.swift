extension HTTPFault {
    /// Every way in which a message can be wrong.
    package enum Reason: UInt8, Sendable, CaseIterable {
        case requestLine, method, target, version, statusLine
        case targetTooLong, headTooLarge, tooManyFields
        case fieldName, fieldValue, lineEnd
        case missingHost, duplicateHost, invalidHost, hostMismatch
        case contentLength, duplicateContentLength, transferEncoding, unknownTransferCoding
        case lengthAndCoding, contentInTrace
        case connection, expectation
        case chunkSize, chunkExtension, chunkEnd, chunkOverhead, trailer, trailerTooLarge
        case truncated, upgraded, late, contentTooLarge

        /// The status that a request with this fault is answered with.
        package var requestStatus: UInt16 {
            switch self {
            case .targetTooLong: 414
            case .expectation: 417
            case .late: 408
            case .contentTooLarge: 413
            case .headTooLarge, .tooManyFields: 431
            case .method, .unknownTransferCoding: 501
            case .version: 505
            case .requestLine, .target, .statusLine, .fieldName, .fieldValue, .lineEnd, .missingHost, .duplicateHost,
                .invalidHost, .hostMismatch, .contentLength, .duplicateContentLength, .transferEncoding,
                .lengthAndCoding, .contentInTrace, .connection, .chunkSize, .chunkExtension, .chunkEnd,
                .chunkOverhead, .trailer, .trailerTooLarge, .truncated, .upgraded:
                400
            }
        }

        /// Stable, snake_case, for logs and metrics.
        package var text: StaticString {
            switch self {
            case .requestLine: "request_line"
            case .method: "method"
            case .target: "target"
            case .version: "version"
            case .statusLine: "status_line"
            case .targetTooLong: "target_too_long"
            case .headTooLarge: "head_too_large"
            case .tooManyFields: "too_many_fields"
            case .fieldName: "field_name"
            case .fieldValue: "field_value"
            case .lineEnd: "line_end"
            case .missingHost: "missing_host"
            case .duplicateHost: "duplicate_host"
            case .invalidHost: "invalid_host"
            case .hostMismatch: "host_mismatch"
            case .contentLength: "content_length"
            case .duplicateContentLength: "duplicate_content_length"
            case .transferEncoding: "transfer_encoding"
            case .unknownTransferCoding: "unknown_transfer_coding"
            case .lengthAndCoding: "length_and_coding"
            case .contentInTrace: "content_in_trace"
            case .connection: "connection"
            case .expectation: "expectation"
            case .chunkSize: "chunk_size"
            case .chunkExtension: "chunk_extension"
            case .chunkEnd: "chunk_end"
            case .chunkOverhead: "chunk_overhead"
            case .trailer: "trailer"
            case .trailerTooLarge: "trailer_too_large"
            case .truncated: "truncated"
            case .late: "late"
            case .contentTooLarge: "content_too_large"
            case .upgraded: "upgraded"
            }
        }
    }
}
