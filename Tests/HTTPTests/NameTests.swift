import HTTP
import Testing
import Wire

@Suite struct NameTests {
    @Test("Every known field name is recognised in any case, and no other that differs in one byte")
    func fieldNames() {
        #expect(FieldName.allCases.count <= 64)
        for name in FieldName.allCases where name != .other {
            let text = Array("\(name.text)".utf8)
            let spellings = [text, Array("\(name.text)".lowercased().utf8), Array("\(name.text)".uppercased().utf8)]
            #expect(spellings.map(recognise) == [name, name, name])
            #expect(recognise(text + text) == .other)
            for place in 0..<text.count {
                #expect(recognise(Array(text[..<place])) != name)
                for byte in UInt8.min...UInt8.max where byte.lowercasedASCII != text[place].lowercasedASCII {
                    var other = text
                    other[place] = byte
                    guard recognise(other) != name else {
                        Issue.record("\(name.text) with byte \(byte) at \(place)")
                        return
                    }
                }
            }
        }
    }

    @Test("A name is recognised wherever it stands in the bytes")
    func fieldNamesInPlace() {
        for name in FieldName.allCases where name != .other && name != .host && name != .contentLength {
            let head = "GET / HTTP/1.1\r\nHost: a\r\n\(name.text):x\r\n\r\n"
            var parsed = RequestHead()
            let outcome = parsed.parse(Array(head.utf8).rawBytes, limits: HeadLimits())
            guard outcome == .complete else { continue }
            let (count, known, first) = (parsed.fields.count, parsed.fields[1].known, parsed.fields.first(name))
            #expect(count == 2 && known == name && first == 1)
        }
    }

    @Test("Every method is told by its name")
    func methodNames() {
        for method in Method.allCases where method != .other {
            let names = ["\(method.text)", "\(method.text)".lowercased(), "\(method.text)S"]
            #expect(names.map { Method(Array($0.utf8).rawBytes) } == [method, .other, .other])
        }
        let others = ["", "P", "PROPFIND", "GE"]
        #expect(others.allSatisfy { Method(Array($0.utf8).rawBytes) == .other })
    }

    @Test("These fields end at each hop, and no others by themselves")
    func hopByHop() {
        let ending: [FieldName] = [
            .transferEncoding, .connection, .keepAlive, .proxyConnection, .proxyAuthorization, .proxyAuthenticate, .te,
            .upgrade,
        ]
        #expect(FieldName.allCases.filter(\.isHopByHop) == ending)
    }

    @Test("A table knows where each name stands first and whether it comes again, message after message")
    func table() {
        var head = RequestHead()
        let first = Array(
            "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nCookie: a\r\nCookie: b\r\nY: 2\r\nCookie: c\r\n\r\n".utf8)
        _ = head.parse(first.rawBytes, limits: HeadLimits())
        #expect(head.fields.count == 6)
        #expect(head.fields.first(.host) == 0 && !head.fields.isRepeated(.host))
        #expect(head.fields.first(.cookie) == 2 && head.fields.isRepeated(.cookie))
        #expect(head.fields.occurrences(of: .cookie) == 3 && head.fields.occurrences(of: .host) == 1)
        #expect(head.fields.contains(.other) && head.fields.first(.other) == 1)

        let second = Array("GET / HTTP/1.1\r\nHost: a\r\n\r\n".utf8)
        _ = head.parse(second.rawBytes, limits: HeadLimits())
        #expect(head.fields.count == 1)
        #expect(!head.fields.contains(.cookie) && head.fields.first(.cookie) == nil)
        #expect(!head.fields.isRepeated(.cookie) && head.fields.occurrences(of: .cookie) == 0)
    }

    private func recognise(_ name: [UInt8]) -> FieldName { FieldName.recognise(name.rawBytes) }
}
