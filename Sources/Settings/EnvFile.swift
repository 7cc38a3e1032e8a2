/// One `NAME=value` of an env file or of the process environment.
package struct EnvEntry: Hashable, Sendable {
    package var name: String
    package var value: String
    package var origin: Origin

    package init(name: String, value: String, origin: Origin) {
        self.name = name
        self.value = value
        self.origin = origin
    }
}

/// Parser of env files.
///
/// A line is blank, a `# comment`, or `[export] NAME=value`. A bare value ends at the line's end or at a `#` after a space, and
/// may contain spaces. `'Single quotes'` are literal. In `"double quotes"` a backslash escapes `"`, `\`, `$` and a backquote;
/// there is no interpolation. Lines end in LF or CRLF. A duplicate name in one file is a fault, and so is any line that env
/// file parsers read differently.
package enum EnvFile {
    /// The maximum size of a file in bytes: a hundred thousand routes.
    package static let maximumBytes = 16 << 20

    /// Parses a whole file; `name` appears in the origins. Valid lines are returned even if others are at fault.
    package static func parse(_ bytes: [UInt8], name: String) -> (entries: [EnvEntry], findings: Findings) {
        var reading = Reading(file: name)
        guard bytes.count <= maximumBytes else {
            reading.findings.fault(Finding(.file(name, line: 1), nil, "is larger than 16 MiB, give a smaller env file"))
            return ([], reading.findings)
        }
        // As editors and shells of Windows write text.
        guard !bytes.starts(with: [0xFF, 0xFE]), !bytes.starts(with: [0xFE, 0xFF]) else {
            reading.findings.fault(Finding(.file(name, line: 1), nil, "is UTF-16, save the file as UTF-8"))
            return ([], reading.findings)
        }
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        let body = bytes.starts(with: mark) ? bytes[mark.count...] : bytes[...]
        for line in body.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
            reading.number += 1
            reading.read(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
        }
        return (reading.entries, reading.findings)
    }
}

/// One pass over one file.
private struct Reading {
    let file: String
    var number = 0
    var entries: [EnvEntry] = []
    var findings = Findings()
    var firstLine: [String: Int] = [:]

    var origin: Origin { .file(file, line: number) }

    mutating func fault(_ message: String, name: String? = nil) {
        findings.fault(Finding(origin, name, message))
    }

    mutating func read(_ line: ArraySlice<UInt8>) {
        var rest = line.drop(while: isBlank)
        guard let first = rest.first, first != UInt8(ascii: "#") else { return }
        if line.contains(where: { ($0 < 0x20 && $0 != 9) || $0 == 0x7F }) {
            return fault("contains a control character, remove it")
        }
        let export = Array("export".utf8)
        if rest.starts(with: export), let next = rest.dropFirst(export.count).first, isBlank(next) {
            rest = rest.dropFirst(export.count).drop(while: isBlank)
        }
        let name = rest.prefix { $0.isNameByte }
        let text = String(decoding: name, as: UTF8.self)
        rest = rest.dropFirst(name.count)
        guard let start = name.first, !start.isDigitByte else {
            return fault("is no setting, write NAME=value or begin a comment with #")
        }
        guard rest.first == UInt8(ascii: "=") else {
            let spaced = rest.drop(while: isBlank).first == UInt8(ascii: "=")
            return fault(
                spaced ? "has a space before the =, write \(text)=value" : "is no setting, write NAME=value or begin a comment with #",
                name: spaced ? text : nil)
        }
        readValue(of: text, rest.dropFirst())
    }

    /// Parses the part of a line after `NAME=` and adds the entry.
    mutating func readValue(of name: String, _ rest: ArraySlice<UInt8>) {
        guard let bytes = value(name, rest) else { return }
        guard let value = String(validating: bytes, as: UTF8.self) else {
            return fault("is not UTF-8, save the file as UTF-8", name: name)
        }
        if let line = firstLine[name] {
            return fault("is set twice in this file, first in line \(line), keep one of them", name: name)
        }
        firstLine[name] = number
        entries.append(EnvEntry(name: name, value: value, origin: origin))
    }

    mutating func value(_ name: String, _ rest: ArraySlice<UInt8>) -> [UInt8]? {
        guard let first = rest.first else { return [] }
        switch first {
        case UInt8(ascii: "'"), UInt8(ascii: "\""): return quotedValue(name, rest)
        case _ where isBlank(first):
            let next = rest.drop(while: isBlank).first
            if next == nil || next == UInt8(ascii: "#") { return [] }
            fault("has a space after the =, write \(name)=value", name: name)
            return nil
        default: return bareValue(rest)
        }
    }

    func bareValue(_ rest: ArraySlice<UInt8>) -> [UInt8] {
        var end = rest.startIndex
        for index in rest.indices {
            let byte = rest[index]
            if byte == UInt8(ascii: "#"), index > rest.startIndex, isBlank(rest[index - 1]) { break }
            if byte == UInt8(ascii: "#"), index == rest.startIndex { break }
            if !isBlank(byte) { end = index + 1 }
        }
        return Array(rest[rest.startIndex..<end])
    }

    mutating func quotedValue(_ name: String, _ rest: ArraySlice<UInt8>) -> [UInt8]? {
        let quote = rest[rest.startIndex]
        let escapes = quote == UInt8(ascii: "\"")
        var value: [UInt8] = []
        var index = rest.startIndex + 1
        while index < rest.endIndex, rest[index] != quote {
            if escapes, rest[index] == UInt8(ascii: "\\"), index + 1 < rest.endIndex, rest[index + 1].isEscapable {
                index += 1
            }
            value.append(rest[index])
            index += 1
        }
        guard index < rest.endIndex else {
            fault("has an opening quote and no closing one, end the value with \(escapes ? "\"" : "'")", name: name)
            return nil
        }
        let behind = rest[(index + 1)...]
        let next = behind.drop(while: isBlank).first
        guard next == nil || (next == UInt8(ascii: "#") && behind.first != next) else {
            fault("has text after the closing quote, put the whole value inside the quotes", name: name)
            return nil
        }
        return value
    }
}

private func isBlank(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }

extension UInt8 {
    fileprivate var isDigitByte: Bool { self &- 48 < 10 }
    fileprivate var isNameByte: Bool { isDigitByte || (self | 0x20) &- 97 < 26 || self == 95 }
    /// Whether a backslash inside double quotes escapes this byte, as in a shell.
    fileprivate var isEscapable: Bool {
        switch self {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "$"), UInt8(ascii: "`"): true
        default: false
        }
    }
}
