import HTTP
import Testing
import Wire

/// Heads are scanned words at a time; here every byte value stands in every place of a word, against the plain rule.
@Suite struct HeadByteTests {
    /// Parses `before + filler with one byte replaced + after` for every byte and place.
    private func everywhere(
        _ before: String, _ after: String, length: Int, expected: (UInt8) -> String?
    ) {
        for place in 0..<length {
            for byte in UInt8.min...UInt8.max {
                var middle = Array(repeating: UInt8(ascii: "a"), count: length)
                middle[place] = byte
                let outcome = Described.request((Array(before.utf8) + middle + Array(after.utf8)).rawBytes)
                let fault = outcome.hasPrefix("accepted") ? nil : outcome
                guard fault == expected(byte) else {
                    Issue.record("byte \(byte) at \(place) of \(length) behind \(before): \(outcome)")
                    return
                }
            }
        }
    }

    @Test("Field values hold no controls but HTAB", arguments: [1, 7, 8, 9, 16, 21, 281])
    func values(length: Int) {
        everywhere("GET / HTTP/1.1\r\nHost: a\r\nX-Longer: x", "x\r\n\r\n", length: length) { byte in
            switch byte {
            case 10, 13: "400 line_end"
            case 9, 32...126, 128...255: nil
            default: "400 field_value"
            }
        }
    }

    @Test("Field names are tokens", arguments: [1, 8, 14, 17])
    func names(length: Int) {
        let token = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
        everywhere("GET / HTTP/1.1\r\nHost: a\r\nx", "x: y\r\n\r\n", length: length) { byte in
            // A colon ends the name early, and the rest is the value's.
            token.contains(byte) || byte == UInt8(ascii: ":") ? nil : "400 field_name"
        }
    }

    @Test("Targets are visible ASCII without a fragment", arguments: [1, 8, 13])
    func targets(length: Int) {
        everywhere("GET /", "a HTTP/1.1\r\nHost: a\r\n\r\n", length: length) { byte in
            switch byte {
            case 10, 13, 32: "400 request_line"
            case 35: "400 target"
            case 33...126: nil
            default: "400 target"
            }
        }
    }

    @Test("Methods are tokens")
    func methods() {
        let token = Set("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ".utf8)
        everywhere("x", "x / HTTP/1.1\r\nHost: a\r\n\r\n", length: 9) { byte in
            token.contains(byte) ? nil : "400 request_line"
        }
    }
}
