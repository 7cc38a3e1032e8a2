internal import HTTP
package import Wire

/// How a dialect writes a refusal: the shape of its answer, and its own codes and sentences where it has some.
package final class Envelope: Sendable {
    /// A value in the answer.
    package enum Part: Sendable {
        case code, message, status
        /// The reason phrase of the status.
        case title
        /// Left out if there is none.
        case requestID
        case fixed(StaticString)
    }

    /// A member beside those of the envelope.
    package struct Extra: Equatable, Sendable {
        package let name: String
        package let value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    package let name: String
    package let contentType: StaticString
    /// The member whose value is the object with all others; nil: they stand in the answer itself.
    private let object: StaticString?
    private let members: [(name: StaticString, part: Part)]
    private let ownCode: @Sendable (Refusal) -> StaticString?
    private let ownSentence: @Sendable (Refusal) -> StaticString?
    private let spell: @Sendable (_ status: UInt16, _ code: String) -> String

    /// `code` and `sentence` are nil where the gate's own are used; `spell` spells codes that are none of the gate's.
    package init(
        name: String, contentType: StaticString = "application/json; charset=utf-8", object: StaticString? = nil,
        members: [(name: StaticString, part: Part)], code: @escaping @Sendable (Refusal) -> StaticString? = { _ in nil },
        sentence: @escaping @Sendable (Refusal) -> StaticString? = { _ in nil },
        spell: @escaping @Sendable (_ status: UInt16, _ code: String) -> String = { _, code in code }
    ) {
        self.name = name
        self.contentType = contentType
        self.object = object
        self.members = members
        ownCode = code
        ownSentence = sentence
        self.spell = spell
    }

    static let problem = Envelope(
        name: "problem", contentType: "application/problem+json",
        members: [
            ("type", .fixed("about:blank")), ("title", .title), ("status", .status), ("detail", .message), ("code", .code),
            ("request_id", .requestID),
        ])
    /// Its answers have no body.
    static let grpc = Envelope(name: "grpc", contentType: "application/grpc", members: [])

    /// The code in this dialect's spelling.
    package func code(of refusal: Refusal) -> StaticString { ownCode(refusal) ?? refusal.code.text }

    /// The spelling of a code that is none of the gate's.
    package func code(_ code: String, status: UInt16) -> String { spell(status, code) }

    /// The message for a person.
    package func sentence(for refusal: Refusal) -> StaticString { ownSentence(refusal) ?? refusal.sentence }

    /// Appends the body for a code and a message; `extras` stand beside the code. Only `problem` carries the request id; the contracts
    /// do not document one, and every answer has it as a header.
    package func writeBody(
        status: UInt16, code: RawSpan, message: RawSpan, requestID: RawSpan, extras: [Extra] = [], into out: inout ByteBuffer
    ) {
        guard !members.isEmpty else { return }
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            if let object {
                json.key(object)
                json.beginObject()
            }
            for (name, part) in members {
                switch part {
                case .code: json.field(name, code)
                case .message: json.field(name, message)
                case .status: json.field(name, Int(status))
                case .title: json.field(name, StatusText.reason(Int(status)))
                case .requestID: if requestID.byteCount > 0 { json.field(name, requestID) }
                case .fixed(let text): json.field(name, text)
                }
            }
            for extra in extras {
                json.key(extra.name)
                json.string(extra.value)
            }
            if object != nil { json.endObject() }
            json.endObject()
        }
    }

    /// Appends the body of a refusal. `message` takes the place of the sentence.
    package func writeBody(
        _ refusal: Refusal, requestID: RawSpan, extras: [Extra] = [], message: String? = nil, into out: inout ByteBuffer
    ) {
        let (status, code) = (refusal.status, code(of: refusal))
        guard let message else {
            let sentence = sentence(for: refusal)
            return writeBody(
                status: status, code: code.rawBytes, message: sentence.rawBytes, requestID: requestID, extras: extras, into: &out)
        }
        let text = Array(message.utf8)
        writeBody(status: status, code: code.rawBytes, message: text.rawBytes, requestID: requestID, extras: extras, into: &out)
    }
}

/// The envelopes by dialect: the gate's own, and those that the program adds. A dialect that has none is written as `problem`.
package struct Envelopes: Sendable {
    private var table: [Envelope?] = Array(repeating: nil, count: Int(UInt8.max) + 1)

    package init(_ added: [(dialect: Dialect, envelope: Envelope)] = []) {
        for (dialect, envelope) in added { table[Int(dialect.rawValue)] = envelope }
        table[Int(Dialect.problem.rawValue)] = .problem
        table[Int(Dialect.grpc.rawValue)] = .grpc
    }

    package subscript(_ dialect: Dialect) -> Envelope { table[Int(dialect.rawValue)] ?? .problem }
}
