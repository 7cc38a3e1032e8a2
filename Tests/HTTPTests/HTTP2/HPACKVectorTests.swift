import HTTP
import Testing
import Wire

/// The examples of RFC 7541, appendix C.
@Suite struct HPACKVectorTests {
    /// One block of a connection, and the size of the table behind it.
    private struct Step {
        var block: String
        var outcome: String
        var tableSize: Int
    }

    private func check(_ steps: [Step], as kind: FieldSectionKind, tableLimit: Int = 4096) {
        var reader = BlockReader(tableLimit: tableLimit)
        for step in steps {
            let outcome = reader.read(FieldBlock.hex(step.block), as: kind)
            #expect(outcome == step.outcome.replacing("\n", with: "\r\n") + "\r\n", "\(step.block)")
            let size = reader.decoder.tableSize
            #expect(size == step.tableSize, "\(step.block)")
        }
    }

    @Test("C.2: fields in each representation")
    func fields() {
        check(
            [
                Step(
                    block: "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", outcome: "custom-key: custom-header\n",
                    tableSize: 55)
            ],
            as: .trailers)
        check([Step(block: "1008 7061 7373 776f 7264 0673 6563 7265 74", outcome: "password: secret\n", tableSize: 0)], as: .trailers)
        var reader = BlockReader()
        // C.2.2 and C.2.4: a path without indexing, a method of the static table.
        _ = reader.read(FieldBlock.hex("040c 2f73 616d 706c 652f 7061 7468 82 86"))
        let (path, method, size) = (
            reader.section.pseudoField(.path).text, reader.section.pseudoField(.method).text, reader.decoder.tableSize
        )
        #expect([path, method] == ["/sample/path", "GET"] && size == 0)
    }

    private static let requests = [
        "GET / HTTP/1.1\nhost: www.example.com\n",
        "GET / HTTP/1.1\nhost: www.example.com\ncache-control: no-cache\n",
        "GET /index.html HTTP/1.1\nhost: www.example.com\ncustom-key: custom-value\n",
    ]
    private static let requestSizes = [57, 110, 164]

    @Test(
        "C.3 and C.4: requests of one connection, without and with Huffman coding",
        arguments: [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ])
    func requests(_ blocks: [String]) {
        check(
            blocks.indices.map { Step(block: blocks[$0], outcome: Self.requests[$0], tableSize: Self.requestSizes[$0]) },
            as: .request(hasContent: false))
    }

    private static let responses = [
        "HTTP/1.1 302 \ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
        "HTTP/1.1 307 \ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
        """
        HTTP/1.1 200 
        cache-control: private
        date: Mon, 21 Oct 2013 20:13:22 GMT
        location: https://www.example.com
        content-encoding: gzip
        set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1

        """,
    ]
    private static let responseSizes = [222, 222, 215]

    @Test(
        "C.5 and C.6: responses of one connection with a table of 256 bytes, which evicts",
        arguments: [
            [
                """
                4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768
                7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d
                """,
                "4803 3330 37c1 c0bf",
                """
                88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153
                444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
                3d31
                """,
            ],
            [
                """
                4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8
                e9ae 82ae 43d3
                """,
                "4883 640e ffc1 c0bf",
                """
                88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b
                3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07
                """,
            ],
        ])
    func responses(_ blocks: [String]) {
        check(
            blocks.indices.map { Step(block: blocks[$0], outcome: Self.responses[$0], tableSize: Self.responseSizes[$0]) },
            as: .response(hasContent: false), tableLimit: 256)
    }

    @Test("Appendix A: each index of the static table")
    func staticTable() {
        #expect(AppendixA.fields.count == 61)
        for (index, field) in AppendixA.fields.enumerated() {
            var block = FieldBlock()
            block.indexed(index + 1)
            var reader = BlockReader()
            let outcome = reader.readFields(block.bytes)
            let expected =
                field.name[0] == UInt8(ascii: ":")
                ? "malformed unknown_pseudo_field"
                : field.name == Array("transfer-encoding".utf8)
                    ? "malformed connection_specific_field"
                    : field.description
            #expect(outcome == [expected], "index \(index + 1)")
        }
    }
}

/// The static table of RFC 7541, appendix A.
enum AppendixA {
    static let fields: [FieldPair] = text.split(separator: "\n").map { line in
        let name = line.prefix { $0 != " " }
        return FieldPair(String(name), String(line.dropFirst(name.count + 1)))
    }

    private static let text = """
        :authority
        :method GET
        :method POST
        :path /
        :path /index.html
        :scheme http
        :scheme https
        :status 200
        :status 204
        :status 206
        :status 304
        :status 400
        :status 404
        :status 500
        accept-charset
        accept-encoding gzip, deflate
        accept-language
        accept-ranges
        accept
        access-control-allow-origin
        age
        allow
        authorization
        cache-control
        content-disposition
        content-encoding
        content-language
        content-length
        content-location
        content-range
        content-type
        cookie
        date
        etag
        expect
        expires
        from
        host
        if-match
        if-modified-since
        if-none-match
        if-range
        if-unmodified-since
        last-modified
        link
        location
        max-forwards
        proxy-authenticate
        proxy-authorization
        range
        referer
        refresh
        retry-after
        server
        set-cookie
        strict-transport-security
        transfer-encoding
        user-agent
        vary
        via
        www-authenticate
        """
}
