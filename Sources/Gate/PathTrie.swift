import Wire

/// Builder of a compressed path trie, and the flat form that requests walk.
struct PathTrie {
    /// A rule at a node.
    struct Entry: Sendable {
        var route: Int32
        var methods: MethodSet
        /// Whether wider rules must not match this path.
        var isEndpoint = false
    }

    struct EntryRange: Sendable {
        var start: Int32 = 0
        var end: Int32 = 0
        var isEmpty: Bool { start == end }
    }

    /// Nodes refer to each other by index, -1 for none.
    struct Node: Sendable {
        var label: Slice
        /// First byte of the label, which differs among siblings; 0 for a root.
        var first: UInt8
        var firstChild: Int32
        var nextSibling: Int32
        /// The child for a braced name, behind one segment of any text; only where the path ends with a slash.
        var braced: Int32
        /// Bytes of labels from the root to here, this one's included.
        var depth: Int32
        /// Nearest ancestor, up to the next braced segment, that matches paths which none of its children matches.
        var outerFallback: Int32
        /// Rules for exactly this path.
        var exact: EntryRange
        /// Prefix rules for this path plus a slash, which also match without it.
        var bare: EntryRange
        /// Prefix rules for all paths that begin with this one.
        var prefix: EntryRange

        /// Whether it matches paths that continue differently from its children.
        var isFallback: Bool { braced >= 0 || !prefix.isEmpty }
    }

    private struct Draft {
        var label: [UInt8]
        var children: [Int] = []
        var braced: Int?
        var exact: [Entry] = []
        var bare: [Entry] = []
        var prefix: [Entry] = []
    }

    private var drafts: [Draft] = []

    mutating func newRoot() -> Int {
        drafts.append(Draft(label: []))
        return drafts.count - 1
    }

    /// Inserts a rule; returns the route of an equal rule, if there is one.
    mutating func insert(_ entry: Entry, path: PathPattern, isPrefix: Bool, root: Int) -> Int? {
        var parent = root
        for literal in path.literals.dropLast() { parent = bracedNode(of: node(at: literal[...], below: parent)) }
        let last = path.literals[path.literals.count - 1]
        let node = node(at: last[...], below: parent)
        guard isPrefix else { return Self.add(entry, to: &drafts[node].exact) }
        if let twin = Self.add(entry, to: &drafts[node].prefix) { return twin }
        guard path.hasBraces || last.count > 1, last.last == UInt8(ascii: "/") else { return nil }
        let shorter = self.node(at: last.dropLast(), below: parent)
        return Self.add(entry, to: &drafts[shorter].bare)
    }

    private mutating func bracedNode(of node: Int) -> Int {
        if let braced = drafts[node].braced { return braced }
        drafts.append(Draft(label: []))
        drafts[node].braced = drafts.count - 1
        return drafts.count - 1
    }

    /// Keeps fewest methods first. Two rules with the same number of methods that share one are equal.
    private static func add(_ entry: Entry, to list: inout [Entry]) -> Int? {
        for other in list where other.methods.count == entry.methods.count {
            if other.methods.bits & entry.methods.bits != 0 { return Int(other.route) }
        }
        let position = list.firstIndex { $0.methods.count > entry.methods.count } ?? list.count
        list.insert(entry, at: position)
        return nil
    }

    /// The node for `path`; splits labels to make it.
    private mutating func node(at path: ArraySlice<UInt8>, below parent: Int) -> Int {
        guard let first = path.first else { return parent }
        guard let position = drafts[parent].children.firstIndex(where: { drafts[$0].label[0] == first }) else {
            drafts.append(Draft(label: Array(path)))
            drafts[parent].children.append(drafts.count - 1)
            return drafts.count - 1
        }
        let child = drafts[parent].children[position]
        let label = drafts[child].label
        let shared = zip(label, path).prefix { $0 == $1 }.count
        guard shared < label.count else { return node(at: path.dropFirst(shared), below: child) }
        drafts.append(Draft(label: Array(label[..<shared]), children: [child]))
        let upper = drafts.count - 1
        drafts[child].label = Array(label[shared...])
        drafts[parent].children[position] = upper
        return node(at: path.dropFirst(shared), below: upper)
    }

    /// The trie in three arrays; nodes keep their indices.
    consuming func flattened() -> (nodes: [Node], entries: [Entry], labels: [UInt8]) {
        var flat = Flat()
        for draft in drafts { flat.add(draft) }
        let inner = Set(drafts.flatMap { $0.children + ($0.braced.map { [$0] } ?? []) })
        for root in drafts.indices where !inner.contains(root) { flat.link(drafts, root, depth: 0, outerFallback: -1) }
        return (flat.nodes, flat.entries, flat.labels)
    }

    private struct Flat {
        var nodes: [Node] = []
        var entries: [Entry] = []
        var labels: [UInt8] = []

        mutating func add(_ draft: Draft) {
            let label = Slice(start: labels.count, count: draft.label.count)
            labels += draft.label
            nodes.append(
                Node(
                    label: label, first: draft.label.first ?? 0, firstChild: -1, nextSibling: -1,
                    braced: Int32(draft.braced ?? -1), depth: 0, outerFallback: -1,
                    exact: range(draft.exact), bare: range(draft.bare), prefix: range(draft.prefix)))
        }

        private mutating func range(_ list: [Entry]) -> EntryRange {
            let start = Int32(entries.count)
            entries += list
            return EntryRange(start: start, end: Int32(entries.count))
        }

        mutating func link(_ drafts: [Draft], _ node: Int, depth above: Int32, outerFallback: Int32) {
            let depth = above + Int32(drafts[node].label.count)
            nodes[node].depth = depth
            nodes[node].outerFallback = outerFallback
            let inner = nodes[node].isFallback ? Int32(node) : outerFallback
            var next: Int32 = -1
            for child in drafts[node].children.reversed() {
                nodes[child].nextSibling = next
                next = Int32(child)
                link(drafts, child, depth: depth, outerFallback: inner)
            }
            nodes[node].firstChild = next
            if let braced = drafts[node].braced { link(drafts, braced, depth: 0, outerFallback: -1) }
        }
    }
}
