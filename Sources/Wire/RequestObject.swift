/// The JSON object of a request body. An endpoint reads the members that it knows; of unknown members only the syntax is checked.
package struct RequestObject: Sendable {
    /// The error for a body, as a sentence for the client.
    package struct Fault: Error, Equatable {
        package let message: String
    }

    private enum Member: Sendable {
        case text(String)
        case object(Slice)
        case array(Slice)
        case number(Slice)
        case null
        case other
    }

    private let source: [UInt8]
    private let members: [String: Member]

    /// An object without members.
    package static let empty = RequestObject(source: [], members: [:])

    private init(source: [UInt8], members: [String: Member]) {
        self.source = source
        self.members = members
    }

    /// Parses `body` strictly: one object, no bytes after it, at most 32 levels deep, no duplicate members.
    package init(_ body: [UInt8]) throws(Fault) {
        var reading = Reading(body.rawBytes)
        var members: [String: Member]?
        do throws(JSONFault) { members = try reading.members() } catch { members = nil }
        guard let members else { throw Fault.notAnObject }
        self.init(source: body, members: members)
    }

    /// The names of its members, sorted.
    package var names: [String] { members.keys.sorted() }

    /// Throws if it has another member than these.
    package func allow(_ known: [String]) throws(Fault) {
        guard let unknown = names.first(where: { !known.contains($0) }) else { return }
        let right = known.dropLast().joined(separator: ", ") + (known.count > 1 ? " or " : "") + (known.last ?? "")
        throw Fault(message: "There is no member \(unknown) here, use \(right)")
    }

    /// The string value of a member; nil if it is missing or `null`. Throws for other types and for a string with a NUL.
    package func text(_ name: String) throws(Fault) -> String? {
        switch members[name] {
        case nil, .null?: return nil
        case .text(let text)?:
            guard !text.utf8.contains(0) else { throw Fault(message: "\(name) must not hold a NUL character") }
            return text
        case .object?, .array?, .number?, .other?: throw Fault(message: "\(name) must be a string")
        }
    }

    /// The value of a member that is a whole number; nil if it is missing or `null`. Throws for others.
    package func integer(_ name: String) throws(Fault) -> Int? {
        switch members[name] {
        case nil, .null?: return nil
        case .number(let slice)?:
            if let number = Int(String(decoding: source[Int(slice.start)..<slice.end], as: UTF8.self)) { return number }
        case .text?, .object?, .array?, .other?: break
        }
        throw Fault(message: "\(name) must be a whole number")
    }

    /// The object value of a member; nil if it is missing or `null`. Throws for other types.
    package func object(_ name: String) throws(Fault) -> RequestObject? {
        guard let json = try json(name) else { return nil }
        return try RequestObject(json)
    }

    /// The object value of a member as the bytes that were sent; nil if it is missing or `null`. Throws for other types.
    package func json(_ name: String) throws(Fault) -> [UInt8]? {
        switch members[name] {
        case nil, .null?: return nil
        case .object(let slice)?: return Array(source[Int(slice.start)..<slice.end])
        case .text?, .array?, .number?, .other?: throw Fault(message: "\(name) must be an object")
        }
    }

    /// The value of a member that is a list of strings; nil if it is missing or `null`. Throws for others.
    package func texts(_ name: String) throws(Fault) -> [String]? {
        switch members[name] {
        case nil, .null?: return nil
        case .array(let slice)?:
            var texts: [String]? = []
            do throws(JSONFault) {
                var reader = JSONReader(source.rawBytes.extracting(Int(slice.start)..<slice.end))
                _ = try reader.next()
                while case .string(let text) = try reader.next() { texts?.append(reader.string(text)) }
                // Anything but strings ends the loop before the array's end.
                if reader.offset < Int(slice.count) { texts = nil }
            } catch {
                texts = nil
            }
            if let texts, !texts.contains(where: { $0.utf8.contains(0) }) { return texts }
        case .text?, .object?, .number?, .other?: break
        }
        throw Fault(message: "\(name) must be a list of strings")
    }

    /// Whether the member exists and is not `null`.
    package func has(_ name: String) -> Bool {
        switch members[name] {
        case nil, .null?: false
        case .text?, .object?, .array?, .number?, .other?: true
        }
    }

    /// Whether the member exists and is `null`.
    package func isNull(_ name: String) -> Bool {
        switch members[name] {
        case .null?: true
        case nil, .text?, .object?, .array?, .number?, .other?: false
        }
    }

    /// One walk over a body.
    private struct Reading: ~Copyable, ~Escapable {
        private var reader: JSONReader

        @_lifetime(copy source)
        init(_ source: RawSpan) { reader = JSONReader(source) }

        /// The members; nil if the text is no object or has a duplicate member, which two parsers might read differently.
        @_lifetime(self: copy self)
        mutating func members() throws(JSONFault) -> [String: Member]? {
            guard try reader.next() == .beginObject else { return nil }
            var members: [String: Member] = [:]
            while case .key(let key) = try reader.next() {
                guard members.updateValue(try value(), forKey: reader.string(key)) == nil else { return nil }
            }
            return try reader.next() == .end ? members : nil
        }

        @_lifetime(self: copy self)
        private mutating func value() throws(JSONFault) -> Member {
            switch try reader.next() {
            case .string(let text): return .text(reader.string(text))
            case .null: return .null
            case .beginObject:
                let start = reader.offset - 1
                try skipContainer()
                return .object(Slice(start: start, count: reader.offset - start))
            case .beginArray:
                let start = reader.offset - 1
                try skipContainer()
                return .array(Slice(start: start, count: reader.offset - start))
            case .number(let slice): return .number(slice)
            case .bool, .endObject, .endArray, .key, .end: return .other
            }
        }

        /// Skips to the end of the object or array that has just begun.
        @_lifetime(self: copy self)
        private mutating func skipContainer() throws(JSONFault) {
            let outer = reader.depth - 1
            while reader.depth > outer { _ = try reader.next() }
        }
    }
}

extension RequestObject.Fault {
    static let notAnObject = RequestObject.Fault(message: "The body must be a JSON object")
}
