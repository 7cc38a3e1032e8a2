import Testing
import Wire

@testable import HTTP

@Suite struct HPACKEncoderTests {
    /// The block that `write` makes, with its encoder's own first bytes.
    private func block(_ encoder: inout HPACKEncoder, _ write: (HPACKEncoder, inout ByteBuffer) -> Void) -> [UInt8] {
        var out = ByteBuffer()
        encoder.begin(&out)
        write(encoder, &out)
        return out.readable.array
    }

    @Test("The first block sets the table's size to 0, the others say nothing of it")
    func tableSize() {
        var encoder = HPACKEncoder()
        #expect(block(&encoder) { $0.status(200, into: &$1) } == [0x20, 0x88])
        #expect(block(&encoder) { $0.status(200, into: &$1) } == [0x88])
    }

    @Test("Every status is read again", arguments: [100, 103, 200, 204, 206, 304, 400, 401, 404, 429, 500, 503, 599])
    func statuses(status: Int) {
        var encoder = HPACKEncoder()
        var reader = BlockReader()
        let bytes = block(&encoder) { $0.status(status, into: &$1) }
        #expect(reader.read(bytes, as: .response(hasContent: false)) == "HTTP/1.1 \(status) \r\n\r\n")
    }

    @Test(
        "Requests are read again",
        arguments: [
            ("GET", "/", "a.test"), ("POST", "/x?y=\(String(repeating: "z", count: 300))", "a.test:8080"), ("PROPFIND", "/index.html", ""),
        ])
    func requests(_ method: String, _ path: String, _ authority: String) {
        for isSecure in [true, false] {
            var encoder = HPACKEncoder()
            var reader = BlockReader()
            let bytes = block(&encoder) { encoder, out in
                let (method, path, authority) = (Array(method.utf8), Array(path.utf8), Array(authority.utf8))
                encoder.request(
                    method: method.rawBytes, isSecure: isSecure, authority: authority.rawBytes, path: path.rawBytes, into: &out)
            }
            let host = authority.isEmpty ? "" : "host: \(authority)\r\n"
            #expect(reader.read(bytes) == "\(method) \(path) HTTP/1.1\r\n\(host)\r\n")
            let scheme = reader.section.pseudoField(.scheme).text
            #expect(scheme == (isSecure ? "https" : "http"))
        }
    }

    @Test("Every name that is known, and others, are read again in lower case; credentials are never indexed")
    func names() {
        let secrets: Set<FieldName> = [
            .authorization, .cookie, .setCookie, .proxyAuthorization, .xInternalKey, .xRefreshToken, .xNewAccessToken, .xNewRefreshToken,
        ]
        let others = ["X-Mine", "AZaz09!#$%&'*+-.^_`|~", "X-A-NAME-Longer-Than-All-That-Are-KNOWN"].map { ($0, FieldName.other) }
        for (name, known) in FieldName.allCases.map({ ("\($0.text)", $0) }) + others where !name.isEmpty {
            var encoder = HPACKEncoder()
            var reader = BlockReader()
            _ = block(&encoder) { _, _ in }
            let value = Array(known == .te ? "trailers".utf8 : "a value, of \u{E9}".utf8)
            let bytes = block(&encoder) { $0.field(Array(name.utf8).rawBytes, value.rawBytes, into: &$1) }
            let isMalformed = [.connection, .keepAlive, .proxyConnection, .transferEncoding, .upgrade].contains(known)
            let line = name.lowercased() + ": " + value.map { String(UnicodeScalar($0)) }.joined()
            #expect(reader.readFields(bytes) == [isMalformed ? "malformed connection_specific_field" : line])
            #expect(bytes[0] & 0xF0 == (secrets.contains(known) ? 0x10 : 0), "\(name)")
        }
    }

    @Test("Lines are encoded like their fields, in any spelling, up to an empty line or the end")
    func lines() {
        let known = FieldName.allCases.map { "\($0.text)" }.filter { !$0.isEmpty }
        let lengths = (1...30).map { String("X-Aa0_Zz-".cycled($0)) }
        let values = [0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 126, 127, 128, 300].map { String(repeating: "v", count: $0) }
        var all: [UInt8] = []
        var expected = ByteBuffer()
        for name in known + known.map({ $0.uppercased() }) + lengths {
            for (index, value) in values.enumerated() {
                let line = Array((name + [": ", ":", ":\t "][index % 3] + value + "\r\n").utf8)
                var field = ByteBuffer()
                HPACKEncoder().field(Array(name.utf8).rawBytes, Array(value.utf8).rawBytes, into: &field)
                for end in ["", "\r\n", "\r\nxxxxxxxxxxxxxxxxxxxx"] {
                    var out = ByteBuffer()
                    #expect(HPACKEncoder().lines((line + Array(end.utf8)).rawBytes, from: 0, into: &out) == line.count)
                    #expect(out.readable.array == field.readable.array, "\(name): \(value)")
                }
                all += line
                expected.append(field.readable)
            }
        }
        var out = ByteBuffer()
        #expect(HPACKEncoder().lines(all.rawBytes, from: 0, into: &out) == all.count)
        #expect(out.readable.array == expected.readable.array)
    }

    @Test("Values of every length are read again")
    func values() {
        var encoder = HPACKEncoder()
        var reader = BlockReader()
        for count in Array(0..<300) + [16_383, 16_384, 20_000] {
            let value = Array(repeating: UInt8(ascii: "v"), count: count)
            let bytes = block(&encoder) { $0.field(("x-v" as StaticString).rawBytes, value.rawBytes, into: &$1) }
            #expect(reader.readFields(bytes) == ["x-v: \(String(repeating: "v", count: count))"])
        }
    }
}

extension HPACKEncoder {
    /// Appends a field, its name in lower case.
    func field(_ name: RawSpan, _ value: RawSpan, into out: inout ByteBuffer) {
        Self.field(name, value, known: FieldName.recognise(name), into: &out)
    }
}

extension String {
    /// The first `count` characters of the string again and again.
    fileprivate func cycled(_ count: Int) -> Substring { String(repeating: self, count: count / self.count + 1).prefix(count) }
}
