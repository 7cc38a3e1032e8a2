import HTTP
import Testing
import Wire

/// The fields that a gateway adds to a message and removes from it, as each version of HTTP reads them.
@Suite struct FieldEditsTests {
    private func walked(_ edits: borrowing FieldEdits) -> [String] {
        var fields: [String] = []
        edits.forEach { fields.append("\($0.text)=\($1.text)") }
        return fields
    }

    @Test func addedFieldsAreTheSameWholeAndWalked() {
        var edits = FieldEdits()
        let value = edits.add("X-User-Id", Array("u-1".utf8).rawBytes)
        edits.add("Cache-Control", "no-store")
        edits.add("Retry-After", decimal: 7)
        edits.begin("RateLimit")
        edits.append("\"a: b\";r=")
        edits.append(decimal: 12)
        edits.end()
        edits.add("X-Empty", RawSpan())
        let text = edits.http1.text
        #expect(text == "X-User-Id: u-1\r\nCache-Control: no-store\r\nRetry-After: 7\r\nRateLimit: \"a: b\";r=12\r\nX-Empty: \r\n")
        #expect(walked(edits) == ["X-User-Id=u-1", "Cache-Control=no-store", "Retry-After=7", "RateLimit=\"a: b\";r=12", "X-Empty="])
        #expect(edits[value].text == "u-1")
        #expect(edits.value(of: "X-User-Id", in: Slice(start: 0, count: 16)).text == "u-1" && edits.value(of: "X", in: Slice()).isEmpty)
    }

    @Test(arguments: [("X-A", "b\r\nX-Admin: 1"), ("X-A", "b\nc"), ("X-A\r\nX-B", "c"), ("X-A", "b\0")])
    func aFieldThatWouldChangeTheNextIsLeftOut(_ name: String, _ value: String) {
        var edits = FieldEdits()
        let isAdded = edits.add(name, value)
        #expect(!isAdded && edits.addsNothing)
    }

    @Test func editsPutTogetherAddAndRemoveWhatBothDo() {
        var first = FieldEdits()
        first.add("X-A", "1")
        first.remove(.authorization)
        var second = FieldEdits()
        second.add("X-B", "2")
        second.remove(.rateLimit)
        first.append(second)
        #expect(walked(first) == ["X-A=1", "X-B=2"])
        #expect(first.removes(.authorization) && first.removes(.rateLimit) && !first.removes(.cookie))
        first.removeAll()
        #expect(first.addsNothing && !first.removes(.authorization))
    }
}
