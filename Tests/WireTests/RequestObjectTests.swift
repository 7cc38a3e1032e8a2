import Testing

@testable import Wire

/// Request bodies: valid ones, invalid ones, and members of the wrong type.
@Suite struct RequestObjectTests {
    private func object(_ text: String) throws -> RequestObject { try RequestObject(Array(text.utf8)) }

    @Test func membersAreReadByNameAmongOthers() throws {
        let body = try object(#" {"a":"x\u0041\n","n":null,"o":{"in":[1,{"a":"no"}]},"deep":[[[{}]]],"t":true,"ä":"ü"} "#)
        #expect(try body.text("a") == "xA\n")
        #expect(try body.text("ä") == "ü")
        #expect(try body.text("n") == nil && body.text("missing") == nil)
        #expect(try body.object("o")?.text("a") == nil)
        #expect(try body.json("o") == Array(#"{"in":[1,{"a":"no"}]}"#.utf8))
        #expect(!body.has("n") && !body.has("missing") && body.has("t") && body.has("deep"))
    }

    @Test(arguments: [
        "", " ", "{", "}", "[]", "null", "true", "5", "\"a\"", "{}{}", "{} x", "{\"a\"}", "{a:1}", "{'a':1}", "{\"a\":1,}",
        "{\"a\":01}", "{\"a\":NaN}", "{\"a\":1,\"a\":2}", "{\"a\":1,\"\\u0061\":2}", "\u{FEFF}{}", "{\"a\":\"\n\"}", "/**/{}",
    ])
    func textsThatAreNotOneObjectAreRefused(_ text: String) {
        #expect(throws: RequestObject.Fault.notAnObject) { try object(text) }
    }

    @Test func anUnknownMemberIsAFaultWhereOnlySomeAreAllowed() throws {
        let body = try object(#"{"until":1,"rout":2}"#)
        try body.allow(["rout", "until"])
        #expect(throws: RequestObject.Fault(message: "There is no member rout here, use route, path or until")) {
            try body.allow(["route", "path", "until"])
        }
    }

    @Test func depthIsBounded() throws {
        let nested = { (depth: Int) in "{\"a\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth) + "}" }
        #expect(try object(nested(31)).has("a"))
        #expect(throws: RequestObject.Fault.notAnObject) { try object(nested(32)) }
    }

    @Test(arguments: ["5", "true", "[]", "{}", "[\"a\"]", "\"a\\u0000b\""])
    func aTextOfAnotherTypeIsAFault(_ value: String) throws {
        let body = try object("{\"a\":\(value)}")
        #expect(throws: RequestObject.Fault.self) { try body.text("a") }
    }

    @Test(arguments: ["5", "true", "[]", "\"{}\""])
    func anObjectOfAnotherTypeIsAFault(_ value: String) throws {
        let body = try object("{\"a\":\(value)}")
        #expect(throws: RequestObject.Fault.self) { try body.object("a") }
    }
}
