/// A line of a Swift file, split into code and comments.
struct SourceLine {
    var number: Int
    /// The line as in the file.
    var text = ""
    /// The line without comments, and with the contents of strings blanked out.
    var code = ""
    /// The comments alone, with their slashes.
    var comment = ""

    var hasComment: Bool { !comment.isEmpty }
}

/// Splits Swift source into lines and knows of each byte whether it is code, a comment or inside a string. Code in an
/// interpolation counts as code.
struct SourceText {
    private var lines: [SourceLine] = []
    /// Of the line that is being read.
    private var text: [UInt8] = []
    private var code: [UInt8] = []
    private var comment: [UInt8] = []
    private var context: [Context] = [.code(parentheses: 0)]
    private var bytes: [UInt8]
    private var offset = 0

    private enum Context: Equatable {
        /// The count is of open parentheses, to find the end of an interpolation.
        case code(parentheses: Int)
        case lineComment
        case blockComment
        case string(hashes: Int, isMultiline: Bool)
    }

    static func lines(of source: String) -> [SourceLine] {
        var text = SourceText(bytes: Array(source.utf8))
        while text.offset < text.bytes.count { text.step() }
        text.endLine()
        return text.lines
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private mutating func step() {
        if bytes[offset] == UInt8(ascii: "\n") { return newLine() }
        switch context[context.count - 1] {
        case .code(let parentheses): code(parentheses)
        case .lineComment: take(1, asCode: false, isComment: true)
        case .blockComment: blockComment()
        case .string(let hashes, let isMultiline): string(hashes, isMultiline)
        }
    }

    private mutating func newLine() {
        switch context[context.count - 1] {
        case .lineComment, .string(_, isMultiline: false): context.removeLast()
        case .code, .blockComment, .string(_, isMultiline: true): break
        }
        endLine()
        offset += 1
    }

    private mutating func endLine() {
        lines.append(
            SourceLine(
                number: lines.count + 1, text: String(decoding: text, as: UTF8.self), code: String(decoding: code, as: UTF8.self),
                comment: String(decoding: comment, as: UTF8.self)))
        text.removeAll(keepingCapacity: true)
        code.removeAll(keepingCapacity: true)
        comment.removeAll(keepingCapacity: true)
    }

    private mutating func code(_ parentheses: Int) {
        if starts("//") {
            context.append(.lineComment)
            take(2, asCode: false, isComment: true)
        } else if starts("/*") {
            context.append(.blockComment)
            take(2, asCode: false, isComment: true)
        } else if let hashes = hashesBeforeQuote() {
            let isMultiline = starts(String(repeating: "#", count: hashes) + "\"\"\"")
            context.append(.string(hashes: hashes, isMultiline: isMultiline))
            take(hashes + (isMultiline ? 3 : 1), asCode: true)
        } else {
            countParentheses(parentheses)
        }
    }

    private mutating func countParentheses(_ parentheses: Int) {
        let closesInterpolation = bytes[offset] == UInt8(ascii: ")") && parentheses == 0 && context.count > 1
        switch bytes[offset] {
        case UInt8(ascii: "("): context[context.count - 1] = .code(parentheses: parentheses + 1)
        case UInt8(ascii: ")") where closesInterpolation: context.removeLast()
        case UInt8(ascii: ")"): context[context.count - 1] = .code(parentheses: parentheses - 1)
        default: break
        }
        take(1, asCode: true)
    }

    private mutating func blockComment() {
        if starts("*/") {
            context.removeLast()
            take(2, asCode: false, isComment: true)
        } else if starts("/*") {
            context.append(.blockComment)
            take(2, asCode: false, isComment: true)
        } else {
            take(1, asCode: false, isComment: true)
        }
    }

    private mutating func string(_ hashes: Int, _ isMultiline: Bool) {
        let marks = String(repeating: "#", count: hashes)
        let end = (isMultiline ? "\"\"\"" : "\"") + marks
        if starts(end) {
            context.removeLast()
            take(end.utf8.count, asCode: true)
        } else if starts("\\" + marks + "(") {
            context.append(.code(parentheses: 0))
            take(2 + hashes, asCode: true)
        } else {
            take(starts("\\" + marks) ? 2 + hashes : 1, asCode: false)
        }
    }

    /// How many `#` stand before a quote here; nil if no string begins here.
    private func hashesBeforeQuote() -> Int? {
        var end = offset
        while end < bytes.count && bytes[end] == UInt8(ascii: "#") { end += 1 }
        return end < bytes.count && bytes[end] == UInt8(ascii: "\"") ? end - offset : nil
    }

    private func starts(_ word: String) -> Bool {
        var at = offset
        for byte in word.utf8 {
            guard at < bytes.count, bytes[at] == byte else { return false }
            at += 1
        }
        return true
    }

    private mutating func take(_ count: Int, asCode: Bool, isComment: Bool = false) {
        for _ in 0..<count where offset < bytes.count && bytes[offset] != UInt8(ascii: "\n") {
            text.append(bytes[offset])
            code.append(asCode ? bytes[offset] : UInt8(ascii: " "))
            if isComment { comment.append(bytes[offset]) }
            offset += 1
        }
    }
}
