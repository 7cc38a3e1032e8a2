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
        package var requestStatus: UInt16 { row.requestStatus }

        /// Stable, snake_case, for logs and metrics.
        package var text: StaticString { row.text }

        private var row: (requestStatus: UInt16, text: StaticString) {
            switch self {
            case .targetTooLong: (414, "target_too_long")
            case .expectation: (417, "expectation")
            case .late: (408, "late")
            case .contentTooLarge: (413, "content_too_large")
            case .headTooLarge: (431, "head_too_large")
            case .tooManyFields: (431, "too_many_fields")
            case .method: (501, "method")
            case .unknownTransferCoding: (501, "unknown_transfer_coding")
            case .version: (505, "version")
            case .requestLine: (400, "request_line")
            case .target: (400, "target")
            case .statusLine: (400, "status_line")
            case .fieldName: (400, "field_name")
            case .fieldValue: (400, "field_value")
            case .lineEnd: (400, "line_end")
            case .missingHost: (400, "missing_host")
            case .duplicateHost: (400, "duplicate_host")
            case .invalidHost: (400, "invalid_host")
            case .hostMismatch: (400, "host_mismatch")
            case .contentLength: (400, "content_length")
            case .duplicateContentLength: (400, "duplicate_content_length")
            case .transferEncoding: (400, "transfer_encoding")
            case .lengthAndCoding: (400, "length_and_coding")
            case .contentInTrace: (400, "content_in_trace")
            case .connection: (400, "connection")
            case .chunkSize: (400, "chunk_size")
            case .chunkExtension: (400, "chunk_extension")
            case .chunkEnd: (400, "chunk_end")
            case .chunkOverhead: (400, "chunk_overhead")
            case .trailer: (400, "trailer")
            case .trailerTooLarge: (400, "trailer_too_large")
            case .truncated: (400, "truncated")
            case .upgraded: (400, "upgraded")
            }
        }
    }
}
