import Wire

/// The text format of a key ring: PEM blocks, each after a line with its algorithm, state and times (seconds since 1970).
///
///     # key alg=ES256 state=active created=1700000000
///     -----BEGIN PRIVATE KEY-----
///     …
///     # key alg=ES256 state=retired until=1700600000 created=1690000000
///
/// Empty lines and other lines that begin with `#` are ignored; any other line is a fault.
extension SigningKeyRing {
    /// Parses the text of `serialised()`.
    package init(parsing bytes: RawSpan) throws(KeyFault) {
        var entries: [Entry] = []
        var heading: Heading?
        var block = ""
        let lines = bytes.text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        for (index, text) in lines.enumerated() {
            if text.hasPrefix("# key ") && block.isEmpty {
                guard heading == nil else { throw KeyFault("line \(index + 1): the key above is missing") }
                heading = try Heading(text.dropFirst(6), line: index + 1)
            } else if text.hasPrefix("-----BEGIN ") || !block.isEmpty {
                block += text + "\n"
                guard text.hasPrefix("-----END ") else { continue }
                guard let known = heading else {
                    throw KeyFault("line \(index + 1): the key above has no '# key' line")
                }
                entries.append(try known.entry(block, line: index + 1))
                heading = nil
                block = ""
            } else if !text.isEmpty && !text.hasPrefix("#") {
                throw KeyFault("line \(index + 1): neither a key nor a comment")
            }
        }
        guard block.isEmpty, heading == nil else { throw KeyFault("the key ring ends inside a key") }
        try self.init(entries)
    }

    /// The ring as text, with the private keys: for a file of mode 0600 or a sealed row.
    package func serialised() throws(KeyFault) -> [UInt8] {
        var out = ByteBuffer(capacity: 1024)
        out.append("# The gateway's signing keys. Secret: a reader of this file can forge tokens of any user.\n")
        for entry in entries {
            out.append("# key alg=\(entry.key.algorithm.name) \(entry.state.text) created=\(entry.createdAt)\n")
            out.append(try entry.key.pem())
        }
        return out.readable.array
    }

    private struct Heading {
        let algorithm: SigningAlgorithm
        let state: State
        let createdAt: Int64

        init(_ text: Substring, line: Int) throws(KeyFault) {
            var fields: [Substring: Substring] = [:]
            for word in text.split(separator: " ") {
                guard let equals = word.firstIndex(of: "=") else {
                    throw KeyFault("line \(line): '\(word)' has no value")
                }
                fields[word[..<equals]] = word[word.index(after: equals)...]
            }
            guard let algorithm = fields["alg"].flatMap({ SigningAlgorithm(name: String($0)) }) else {
                throw KeyFault("line \(line): alg is missing or not known")
            }
            guard let createdAt = fields["created"].flatMap({ Int64($0) }) else {
                throw KeyFault("line \(line): created is missing or no number")
            }
            guard let state = State(fields["state"], until: fields["until"].flatMap { Int64($0) }) else {
                throw KeyFault("line \(line): state is not active, next, or retired with until")
            }
            self.algorithm = algorithm
            self.state = state
            self.createdAt = createdAt
        }

        func entry(_ pem: String, line: Int) throws(KeyFault) -> Entry {
            do throws(KeyFault) {
                let bytes = Array(pem.utf8)
                let key = try SigningKey(pem: bytes.rawBytes, algorithm: algorithm)
                return Entry(key: key, state: state, createdAt: createdAt)
            } catch {
                throw KeyFault("the key that ends at line \(line): \(error.message)")
            }
        }
    }
}

extension SigningKeyRing.State {
    fileprivate init?(_ name: Substring?, until: Int64?) {
        switch (name, until) {
        case ("active", nil): self = .active
        case ("next", nil): self = .next
        case ("retired", let until?): self = .retired(until: until)
        case _: return nil
        }
    }

    fileprivate var text: String {
        switch self {
        case .active: "state=active"
        case .next: "state=next"
        case .retired(let until): "state=retired until=\(until)"
        }
    }
}
