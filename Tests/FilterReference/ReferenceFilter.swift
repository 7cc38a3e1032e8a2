package import Gate
import Wire

/// What a filter should let through, found the simple way: from the whole text at once, as a tree.
package struct ReferenceFilter {
    package enum Outcome: Equatable {
        case passes([UInt8], FilterCounts)
        case aboveTier, noList
    }

    private enum Step: Equatable { case member(String), element }

    private struct Path {
        let steps: [Step]

        /// `tier` or `results[].tier`, read the simple way.
        init(_ text: String) {
            steps = text.replacing("[]", with: ".[]").split(separator: ".").map { $0 == "[]" ? .element : .member(String($0)) }
        }

        /// The field alone: it may stand anywhere.
        var isAnywhere: Bool { steps.count == 1 }
        /// How many steps lead to what it judges.
        var unitDepth: Int? { isAnywhere ? nil : (steps.lastIndex(of: .element) ?? 0) + 1 }
    }

    private let paths: [Path]
    private let tiers: [String]
    private let tier: Int
    private let unlabelled: UnlabelledRule

    package init(paths: [String], tiers: [String], tier: Int, unlabelled: UnlabelledRule = .byForm) {
        self.paths = paths.map(Path.init)
        self.tiers = tiers
        self.tier = tier
        self.unlabelled = unlabelled
    }

    private typealias Progress = [Int?]

    /// nil for what is no JSON text. Of the answer to a request that failed, the root may be no array although a path begins
    /// with one.
    package func filter(_ text: [UInt8], isError: Bool = false) -> Outcome? {
        var reader = TreeReader(text)
        guard let root = reader.document() else { return nil }
        var counts = FilterCounts()
        let progress: Progress = paths.map { $0.isAnywhere ? nil : 0 }
        if expectsArray(progress), !isError, case .object = root.content { return .noList }
        if expectsObject(progress), case .array = root.content { return .noList }
        switch judge(root, progress, isElement: false) {
        case .leaves: return .aboveTier
        case .stays(let isLabelled, _):
            if isLabelled { counts.kept += 1 }
            if !isError, rootNeedsLabel(root), !isList(root) { return .aboveTier }
        }
        let inner = render(root, progress, text, &counts)
        return .passes(Array(text[..<root.start]) + inner + Array(text[root.end...]), counts)
    }

    /// Whether the caller may not see this root without a label that it lacks.
    private func rootNeedsLabel(_ root: Node) -> Bool {
        guard case .tier(let counted) = unlabelled, tier < Int(counted.rawValue), case .object(let members) = root.content else {
            return false
        }
        return paths.contains { path in path.isAnywhere && !members.contains { .member($0.name) == path.steps[0] } }
    }

    /// Whether it holds an array that a path names; without paths, one that is empty or has objects.
    private func isList(_ root: Node) -> Bool {
        guard case .object(let members) = root.content else { return false }
        if paths.contains(where: { !$0.isAnywhere }) { return holdsNamedArray(root, paths.map { $0.isAnywhere ? nil : 0 }) }
        return members.contains { member in
            guard case .array(let elements) = member.value.content else { return false }
            return elements.isEmpty || elements.contains(where: \.isObject)
        }
    }

    private func holdsNamedArray(_ node: Node, _ progress: Progress) -> Bool {
        if case .leaves = judge(node, progress, isElement: false) { return false }
        switch node.content {
        case .array: return expectsArray(progress) && !expectsObject(progress)
        case .object(let members):
            guard !expectsArray(progress) else { return false }
            return members.contains { holdsNamedArray($0.value, advance(progress, .member($0.name))) }
        case .string, .null, .other: return false
        }
    }

    private enum Verdict { case leaves(isLabelled: Bool), stays(isLabelled: Bool, isUnlabelled: Bool) }

    private func judge(_ node: Node, _ progress: Progress, isElement: Bool) -> Verdict {
        let units = paths.indices.filter { progress[$0] != nil && progress[$0] == paths[$0].unitDepth }
        guard case .object(let members) = node.content else {
            let leaves = units.contains { leavesUnlabelled(paths[$0]) } || !units.isEmpty && node.isArray
            return leaves ? .leaves(isLabelled: false) : .stays(isLabelled: false, isUnlabelled: !units.isEmpty)
        }
        var labels: [Int: [Node]] = [:]
        for index in paths.indices {
            if paths[index].isAnywhere {
                labels[index] = members.filter { .member($0.name) == paths[index].steps[0] }.map(\.value)
            } else if units.contains(index) {
                labels[index] = fields(node, Array(paths[index].steps[(paths[index].unitDepth ?? 0)...]))
            }
        }
        let all = labels.values.flatMap { $0 }
        if all.contains(where: { !mayPass($0) }) { return .leaves(isLabelled: true) }
        let missing = labels.filter { $0.value.isEmpty }.map(\.key)
        if missing.contains(where: { leavesUnlabelled(paths[$0]) && (units.contains($0) || isElement && paths[$0].isAnywhere) }) {
            return .leaves(isLabelled: false)
        }
        return .stays(isLabelled: !all.isEmpty, isUnlabelled: !missing.isEmpty)
    }

    private func leavesUnlabelled(_ path: Path) -> Bool {
        switch unlabelled {
        case .byForm: !path.isAnywhere
        case .keep: false
        case .drop: true
        case .tier(let counted): tier < Int(counted.rawValue)
        }
    }

    private func fields(_ node: Node, _ steps: [Step]) -> [Node] {
        guard let first = steps.first else { return [node] }
        guard case .object(let members) = node.content else { return [] }
        return members.filter { .member($0.name) == first }.flatMap { fields($0.value, Array(steps.dropFirst())) }
    }

    private func mayPass(_ node: Node) -> Bool {
        guard case .string(let text) = node.content, let rank = tiers.firstIndex(of: text) else { return false }
        return rank <= tier
    }

    private func render(_ node: Node, _ progress: Progress, _ text: [UInt8], _ counts: inout FilterCounts) -> [UInt8] {
        let children: [(name: String?, value: Node)]
        switch node.content {
        case .object(let members): children = members.map { ($0.name, $0.value) }
        case .array(let elements): children = elements.map { (nil, $0) }
        case .string, .null, .other: return Array(text[node.start..<node.end])
        }
        var out: [UInt8] = [text[node.start]]
        var end = node.start + 1
        var isFirst = true
        for (index, child) in children.enumerated() {
            let inside = advance(progress, child.name.map { .member($0) } ?? .element)
            let lead = index > 0 && isFirst ? node.commas[index - 1] + 1 : end
            end = child.value.end
            let isElement = child.name == nil
            if expectsArray(inside) && child.value.isNeitherArrayNorNull || expectsObject(inside) && child.value.isArray {
                counts.dropped += 1
                counts.unlabelled += 1
                counts.droppedUnlabelled += 1
                continue
            }
            switch judge(child.value, inside, isElement: isElement) {
            case .leaves(let isLabelled):
                counts.dropped += 1
                if !isLabelled {
                    counts.unlabelled += 1
                    counts.droppedUnlabelled += 1
                }
                continue
            case .stays(let isLabelled, let isUnlabelled):
                let bytes = render(child.value, inside, text, &counts)
                out += text[lead..<child.value.start] + bytes
                isFirst = false
                let isUnit = paths.indices.contains { inside[$0] != nil && inside[$0] == paths[$0].unitDepth }
                guard child.value.isObject ? isLabelled || isElement && isJudged(inside) : isUnit else { continue }
                counts.kept += 1
                if isElement, isUnlabelled { counts.unlabelled += 1 }
            }
        }
        return out + text[end..<node.end]
    }

    private func isJudged(_ progress: Progress) -> Bool {
        paths.indices.contains { paths[$0].isAnywhere || progress[$0] != nil && progress[$0] == paths[$0].unitDepth }
    }

    private func advance(_ progress: Progress, _ step: Step) -> Progress {
        paths.indices.map { index in
            guard let done = progress[index], done < paths[index].steps.count, paths[index].steps[done] == step else { return nil }
            return done + 1
        }
    }

    private func expectsArray(_ progress: Progress) -> Bool {
        paths.indices.contains { index in
            guard let done = progress[index], done < paths[index].steps.count else { return false }
            return paths[index].steps[done] == .element
        }
    }

    /// Whether a path goes on with a name before it comes to what it judges.
    private func expectsObject(_ progress: Progress) -> Bool {
        paths.indices.contains { index in
            guard let done = progress[index], let unitDepth = paths[index].unitDepth, done < unitDepth else { return false }
            return paths[index].steps[done] != .element
        }
    }
}

/// A value of a JSON text and where it stands.
struct Node {
    indirect enum Content {
        case object([(name: String, value: Node)]), array([Node]), string(String), null, other
    }

    var start: Int
    var end: Int
    var content: Content
    var commas: [Int] = []

    var isObject: Bool { if case .object = content { true } else { false } }
    var isArray: Bool { if case .array = content { true } else { false } }

    var isNeitherArrayNorNull: Bool {
        switch content {
        case .array, .null: false
        case .object, .string, .other: true
        }
    }
}

/// Reads a text into a tree by recursion, one byte after the other.
struct TreeReader {
    private let text: [UInt8]
    private var at = 0
    /// Whether the latest string holds half a surrogate pair.
    private var hasHalves = false

    init(_ text: [UInt8]) { self.text = text }

    mutating func document() -> Node? {
        guard let root = value() else { return nil }
        space()
        return at == text.count ? root : nil
    }

    private var byte: UInt8 { at < text.count ? text[at] : 0 }

    private mutating func space() { while [0x20, 0x09, 0x0A, 0x0D].contains(byte) { at += 1 } }

    private mutating func value() -> Node? {
        space()
        let start = at
        switch byte {
        case UInt8(ascii: "{"):
            var members: [(name: String, value: Node)] = []
            guard
                let commas = list(
                    UInt8(ascii: "}"),
                    { reader in
                        reader.space()
                        guard let name = reader.string(), !reader.hasHalves else { return false }
                        reader.space()
                        guard reader.byte == UInt8(ascii: ":") else { return false }
                        reader.at += 1
                        guard let value = reader.value() else { return false }
                        members.append((name, value))
                        return true
                    })
            else { return nil }
            return Node(start: start, end: at, content: .object(members), commas: commas)
        case UInt8(ascii: "["):
            var elements: [Node] = []
            guard
                let commas = list(
                    UInt8(ascii: "]"),
                    { reader in
                        guard let value = reader.value() else { return false }
                        elements.append(value)
                        return true
                    })
            else { return nil }
            return Node(start: start, end: at, content: .array(elements), commas: commas)
        case UInt8(ascii: "\""):
            return string().map { Node(start: start, end: at, content: .string($0)) }
        default:
            while at < text.count, byte.isASCIIDigit || byte.isASCIILetter || "+-.".utf8.contains(byte) { at += 1 }
            guard at > start else { return nil }
            return Node(start: start, end: at, content: text[start..<at].elementsEqual("null".utf8) ? .null : .other)
        }
    }

    private mutating func list(_ close: UInt8, _ item: (inout Self) -> Bool) -> [Int]? {
        at += 1
        var commas: [Int] = []
        space()
        if byte == close {
            at += 1
            return commas
        }
        while item(&self) {
            space()
            if byte == close {
                at += 1
                return commas
            }
            guard byte == UInt8(ascii: ",") else { return nil }
            commas.append(at)
            at += 1
        }
        return nil
    }

    private mutating func string() -> String? {
        guard byte == UInt8(ascii: "\"") else { return nil }
        at += 1
        var units: [UInt16] = []
        while at < text.count, byte != UInt8(ascii: "\"") {
            if byte == UInt8(ascii: "\\") {
                at += 1
                guard let unit = escaped() else { return nil }
                units.append(unit)
            } else {
                let end = (at + 1..<text.count).first { text[$0] & 0xC0 != 0x80 } ?? text.count
                units += Array(String(decoding: text[at..<end], as: UTF8.self).utf16)
                at = end
            }
        }
        at += 1
        let string = String(decoding: units, as: UTF16.self)
        hasHalves = !string.utf16.elementsEqual(units)
        return at <= text.count ? string : nil
    }

    private mutating func escaped() -> UInt16? {
        let letter = byte
        at += 1
        if letter == UInt8(ascii: "u") {
            guard at + 4 <= text.count else { return nil }
            at += 4
            return UInt16(String(decoding: text[at - 4..<at], as: UTF8.self), radix: 16)
        }
        let pairs: [UInt8: UInt16] = [
            UInt8(ascii: "b"): 8, UInt8(ascii: "f"): 12, UInt8(ascii: "n"): 10, UInt8(ascii: "r"): 13, UInt8(ascii: "t"): 9,
        ]
        return pairs[letter] ?? UInt16(letter)
    }
}
