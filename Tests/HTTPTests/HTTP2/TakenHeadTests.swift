@testable import HTTP
import Testing
import Wire

/// Requests of HTTP/2, whose fields are known by their places before they are a head.
@Suite struct TakenHeadTests {
    private let names = [
        "accept", "host", "cookie", "content-length", "te", "x-user-id", "x_user_id", "content_length", "transfer_encoding", "x-a.b",
        "expect",
        "authorization", "a-name-longer-than-the-twenty-four-bytes-of-names-that-are-known", "content-lengths", "if-unmodified-since",
    ]
    private let values = ["", "a.test", "trailers", "5", "05", "100-continue", "Bearer t", "a b\tc", "\u{E4}", "5, 5"]
    private let methods = ["GET", "POST", "OPTIONS", "TRACE", "CONNECT", "A", "GETS", String(repeating: "M", count: 33)]
    private let paths = ["/", "/a?b", "*", "/a?b?c", "//", "/" + String(repeating: "p", count: 200)]
    private let authorities = [
        "a.test", "a.test:80", "a..test", "[::1]:8080", "127.0.0.1:8080", "", "a@b", "a.test.", "A-_~.test", "a.test:99999",
    ]

    private func fields(_ random: inout SplitMix64) -> [FieldPair] {
        var fields = [
            FieldPair(":method", methods.randomElement(using: &random)!), FieldPair(":scheme", "https"),
            FieldPair(":path", paths.randomElement(using: &random)!),
        ]
        if Int.random(in: 0..<4, using: &random) > 0 { fields.append(FieldPair(":authority", authorities.randomElement(using: &random)!)) }
        if Int.random(in: 0..<8, using: &random) == 0 {
            fields.append(FieldPair(":protocol", ["websocket", "x"].randomElement(using: &random)!))
        }
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            fields.append(FieldPair(names.randomElement(using: &random)!, values.randomElement(using: &random)!))
        }
        return fields
    }

    private func described(_ outcome: HeadOutcome, _ head: borrowing RequestHead, _ bytes: RawSpan) -> String {
        switch outcome {
        case .incomplete: return "incomplete"
        case .invalid(let fault): return "\(fault.status) \(fault.text)"
        case .complete: break
        }
        let known = (0..<head.fields.count).map { "\(head.fields[$0].known)" }.joined(separator: " ")
        return "\(Described.request(head, bytes))\n\(head.method) \(bytes[head.target].text) \(known)"
    }

    @Test("A request that is taken from its field section is the one that its lines are parsed to", arguments: 1...4)
    func agrees(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var encoder = RandomEncoder(seed: seed)
        var reader = BlockReader()
        let limits = [HeadLimits(), HeadLimits(targetBytes: 100), HeadLimits(fields: 4)]
        var (accepted, refused) = (0, 0)
        // Reused, as a worker does: a table goes from one to the other with each request.
        var taken = RequestHead()
        var parsed = RequestHead()
        for round in 0..<fuzzRounds / 4 {
            let fields = fields(&random)
            _ = reader.read(encoder.encode(fields), as: .request(hasContent: Bool.random(using: &random)))
            guard reader.section.fault == nil else { continue }
            let bytes = reader.section.head.array
            let limit = limits[round % limits.count]
            let outcome = taken.take(&reader.section, limits: limit)
            let got = described(outcome, taken, bytes.rawBytes)
            let wanted = described(parsed.parse(bytes.rawBytes, limits: limit), parsed, bytes.rawBytes)
            guard got == wanted else {
                Issue.record("seed \(seed): \(fields) came to\n\(got)\nand not to\n\(wanted)")
                return
            }
            if outcome == .complete { accepted += 1 } else { refused += 1 }
        }
        #expect(accepted > 100 && refused > 100)
    }

    private func described(_ outcome: HeadOutcome, _ head: borrowing ResponseHead, _ bytes: RawSpan) -> String {
        switch outcome {
        case .incomplete: return "incomplete"
        case .invalid(let fault): return "\(fault.status) \(fault.text)"
        case .complete: break
        }
        let fields = (0..<head.fields.count).map { index in
            let field = head.fields[index]
            return "\(field.known) \(bytes[field.name].text): \(bytes[field.value].text)\(field.endsHere ? " ends" : "")"
        }
        return "\(head.status) [\(bytes[head.reason].text)] \(head.framing) \(String(describing: head.contentLength)) \(head.keepAlive) "
            + "\(head.length) \(head.minorVersion)\n" + fields.joined(separator: "\n")
    }

    @Test("An answer that is taken from its field section is the one that its lines are parsed to", arguments: 1...4)
    func answersAgree(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var encoder = RandomEncoder(seed: seed)
        var reader = BlockReader()
        var (accepted, refused) = (0, 0)
        var taken = ResponseHead()
        var parsed = ResponseHead()
        for round in 0..<fuzzRounds / 4 {
            let status = ["200", "200", "204", "304", "103", "101", "999", "099", "404"].randomElement(using: &random)!
            let fields =
                [FieldPair(":status", status)]
                + (0..<Int.random(in: 0...6, using: &random)).map { _ in
                    FieldPair(names.randomElement(using: &random)!, values.randomElement(using: &random)!)
                }
            _ = reader.read(encoder.encode(fields), as: .response(hasContent: Bool.random(using: &random)))
            guard reader.section.fault == nil else { continue }
            let bytes = reader.section.head.array
            let limit = [HeadLimits(), HeadLimits(fields: 3)][round % 2]
            let method = [Method.get, .head][round / 2 % 2]
            let got = described(taken.take(&reader.section, requestMethod: method, limits: limit), taken, bytes.rawBytes)
            let outcome = parsed.parse(bytes.rawBytes, requestMethod: method, limits: limit)
            let wanted = described(outcome, parsed, bytes.rawBytes)
            guard got == wanted else {
                Issue.record("seed \(seed): \(fields) came to\n\(got)\nand not to\n\(wanted)")
                return
            }
            if outcome == .complete { accepted += 1 } else { refused += 1 }
        }
        #expect(accepted > 100 && refused > 100)
    }
}
