package import Wire

/// Streaming filter of a JSON text: copies, byte for byte, what a caller of one tier may see, and removes the rest.
///
/// A *unit*, the smallest thing that is removed, is an object that is an array element or a member's value, or any element
/// of an array that a path names. Its bytes are held until its end, because its tier may be its last member and may be
/// repeated. Of nested units only the outermost is held; an inner one is cut off the end of the held bytes. A removed unit
/// takes its name and its comma with it, or, if it was first, the comma behind it.
///
/// Output positions count from the start of the output, including bytes already handed on: the byte at an offset of the
/// piece is at `mark + shift`.
package struct JSONFilter: ~Copyable {
    private let pin = AddressPin()
    /// Maximum bytes that are held back.
    package static let maxHeld = 1 << 20

    var plan = FilterPlan.none
    var tier = Tier.lowest
    /// The filters that remove elements without their field.
    var needingLabels: UInt8 = 0
    /// The filters that refuse a root object without their field, unless it is a list.
    var rootNeeds: UInt8 = 0
    /// Whether the root object directly holds an array that is empty or has an object among its elements; if the plan has
    /// paths, whether it holds an array that one of them names. Only its elements are judged by the rule for what has no label.
    var rootIsList = false
    /// Whether the array directly in the root object has had no element so far.
    private var rootArrayIsEmpty = false
    /// JSON lines, each of which is a unit.
    var isLines = false
    /// Whether a root that is not an array may pass where a path begins with one, for error objects. An array never passes
    /// where a path begins with a name.
    var toleratesAnyRoot = false

    package internal(set) var counts = FilterCounts()

    var scanner = JSONScanner()
    /// Innermost open array or object, or the document; its number is `last`.
    var top = Frame(mark: 0)
    var last = 0
    /// The frames around it; number 0 is the document. Frames past `last` are stale, which saves removing them.
    var outer = UniqueArray<Frame>()
    /// Number of the outermost held unit; 0 for none.
    var held = 0
    /// Number of the unit being skipped; 0 for none.
    var skipped = 0
    /// The name before the next value, if a filter knows it, otherwise -1; and the filters whose field it is.
    var name = -1
    var fields: UInt8 = 0

    /// Filtered bytes not yet handed on.
    var pending = ByteBuffer()
    /// Number of bytes handed on.
    var handedOn = 0
    /// Offset in the piece up to which it was copied or removed.
    var copied = 0
    var shift = 0
    /// Number of bytes in earlier pieces.
    var before = 0

    /// An open array or object.
    struct Frame {
        /// Output position where it begins, including its name.
        var mark: Int
        /// Output position of its first member or element, including white space before it.
        var inside = 0
        /// Input position where it begins.
        var start = 0
        var isObject = false
        /// An array element, or a line.
        var isElement = false
        /// Progress along the filters' paths.
        var progress: UInt64 = 0
        /// Bits of the filters that judge it, of those that require the field, and of those whose field was seen.
        var judges: UInt8 = 0
        var needs: UInt8 = 0
        var labels: UInt8 = 0
        /// The counts before it, and whether the root was known to be a list.
        var counts = FilterCounts()
        var rootIsList = false
    }

    /// Unusable until `begin`.
    package init() {}

    /// Resets the filter for another text.
    package mutating func begin(_ plan: FilterPlan, tier: Tier, isLines: Bool = false, toleratesAnyRoot: Bool = false) {
        self.plan = plan
        self.tier = tier
        needingLabels = plan.needingLabels(for: tier)
        rootNeeds = isLines || toleratesAnyRoot ? 0 : plan.needingRootLabel(for: tier)
        rootIsList = false
        self.isLines = isLines
        self.toleratesAnyRoot = toleratesAnyRoot
        counts = FilterCounts()
        scanner = JSONScanner(isLines: isLines)
        plan.watchNames(in: &scanner)
        scanner.stopsAtEmptyArrays = rootNeeds != 0
        top = Frame(mark: 0)
        last = 0
        held = 0
        skipped = 0
        rootArrayIsEmpty = false
        name = -1
        fields = 0
        handedOn = 0
        copied = 0
        shift = 0
        before = 0
        isOver = false
        pending.removeAll()
    }

    /// Releases the plan, and memory beyond 64 KiB.
    package mutating func end() {
        plan = .none
        if pending.capacity > 65_536 { pending = ByteBuffer() } else { pending.removeAll() }
    }

    // MARK: output

    /// Bytes that may go to the caller now.
    package var output: RawSpan { @_lifetime(borrow self) get { pending.readable.extracting(0..<ready) } }

    /// Bytes of the text that are in memory.
    package var heldBytes: Int { pending.count }

    /// Removes the first `count` bytes of the output, which were sent.
    package mutating func handOn(_ count: Int) {
        precondition(count <= ready)
        pending.discard(count)
        handedOn += count
    }

    /// Moves the output behind that of `out`. If it is all that there is, and `out` is empty, the two exchange their memory.
    package mutating func handOn(to out: inout ByteBuffer) {
        let count = ready
        if out.isEmpty, count == pending.count {
            handedOn += count
            swap(&out, &pending)
            pending.removeAll()
        } else {
            out.append(output)
            handOn(count)
        }
    }

    private var isOver = false

    /// Number of pending bytes that can no longer be removed.
    var ready: Int {
        if held > 0 { return frame(held).mark - handedOn }
        if skipped > 0 || scanner.isInsideScalar || isOver { return pending.count }
        return scanner.valueEnd + shift - handedOn
    }

    // MARK: frames

    @inline(__always)
    func frame(_ index: Int) -> Frame { index == last ? top : outer[index] }

    private mutating func push(_ frame: Frame) {
        if last < outer.count { outer[last] = top } else { outer.append(top) }
        last += 1
        top = frame
    }

    mutating func pop(to index: Int) {
        guard index < last else { return }
        top = outer[index]
        last = index
    }

    // MARK: input

    /// Filters the next piece.
    package mutating func feed(_ piece: RawSpan) throws(FilterFault) {
        beginPiece()
        while true {
            let step: JSONStep
            do throws(JSONFault) {
                step = try scanner.next(piece)
            } catch {
                throw .broken(error.kind)
            }
            if case .starved = step { break }
            try handle(step, piece)
        }
        if skipped == 0 { pending.append(piece.dropping(copied)) }
        scanner.endPiece(piece.byteCount)
        shift += piece.byteCount
        before += piece.byteCount
        try checkHeld()
    }

    /// Ends the text; the rest of the output may go.
    package mutating func finish() throws(FilterFault) {
        do throws(JSONFault) {
            if !scanner.isBlank { try scanner.end() }
        } catch {
            throw .broken(error.kind)
        }
        isOver = true
    }

    private mutating func beginPiece() {
        scanner.beginPiece()
        copied = 0
        shift = handedOn + pending.count
    }

    private mutating func handle(_ step: JSONStep, _ piece: RawSpan) throws(FilterFault) {
        switch step {
        case .starved: break
        case .beginObject: try open(isObject: true, piece)
        case .beginArray: try open(isObject: false, piece)
        case .endObject, .endArray: try close(piece)
        case .key: try readName(piece)
        case .scalar: try judgeScalar(piece)
        case .separator:
            // The comma follows a removed unit and separates nothing.
            cut(to: scanner.valueEnd + shift, piece)
            resumeCopying()
            scanner.valueEnd = scanner.offset
        }
    }
}

// MARK: - Steps

extension JSONFilter {
    private mutating func readName(_ piece: RawSpan) throws(FilterFault) {
        name = plan.name(scanner.text(piece))
        guard name >= 0 else { return }
        scanner.asksForScalar = true
        fields = plan.fields[name] & top.judges
        if plan.paths != 0 { fields |= plan.fieldsAt(plan.advance(top.progress, by: UInt8(name))) }
        if fields != 0, scanner.readPlainValue(piece) { try judgeLabel(piece) }
    }

    private mutating func open(isObject: Bool, _ piece: RawSpan) throws(FilterFault) {
        if fields != 0 { return try condemnUnits(isLabelled: true, piece) }
        if rootNeeds != 0 { lookForList(isObject: isObject) }
        let isElement = last == 0 ? isLines : !top.isObject
        let judges = isObject ? plan.anywhere : 0
        let needs = isElement ? judges & needingLabels : 0
        push(
            Frame(
                mark: scanner.lead + shift, inside: scanner.offset + shift, start: before + scanner.offset - 1,
                isObject: isObject, isElement: isElement, judges: judges, needs: needs, counts: counts, rootIsList: rootIsList))
        if plan.paths != 0 {
            if last > 1 { advancePaths() }
            if isObject { try refuseObject(piece) } else { try enterArray(piece) }
            if skipped > 0 { return }
        }
        name = -1
        if held == 0, top.judges != 0 { held = last }
    }

    /// Looks for the array that makes the root object a list, where the plan names none.
    private mutating func lookForList(isObject: Bool) {
        guard plan.paths == 0 else { return }
        if last == 1, top.isObject, !isObject {
            rootArrayIsEmpty = true
            scanner.asksForScalar = true
        } else if last == 2, !top.isObject {
            rootArrayIsEmpty = false
            if isObject { rootIsList = true }
        }
    }

    /// Advances the paths into the array or object just opened.
    private mutating func advancePaths() {
        let step = outer[last - 1].isObject ? UInt8(truncatingIfNeeded: name) : FilterPlan.element
        top.progress = plan.advance(outer[last - 1].progress, by: step)
        let units = plan.units(top.progress)
        top.judges |= units
        top.needs |= units & needingLabels
    }

    /// Scalars of an array that a path names are judged too. An array among its elements, or one where the path continues
    /// with a name, does not match the path and is removed: nothing inside it would be judged.
    private mutating func enterArray(_ piece: RawSpan) throws(FilterFault) {
        if top.judges != 0 { return try condemn(last, isLabelled: false, piece) }
        if plan.expectsObject(top.progress) {
            if last == 1, !isLines { throw .noList }
            return try condemn(last, isLabelled: false, piece)
        }
        scanner.asksForScalar = plan.expectsArray(top.progress)
        if scanner.asksForScalar { rootIsList = true }
    }

    /// Removes an object where a path names an array, because it would not be judged.
    private mutating func refuseObject(_ piece: RawSpan) throws(FilterFault) {
        guard plan.expectsArray(top.progress) else { return }
        if last == 1, !isLines {
            if !toleratesAnyRoot { throw .noList }
        } else {
            try condemn(last, isLabelled: false, piece)
        }
    }

    private mutating func judgeScalar(_ piece: RawSpan) throws(FilterFault) {
        if fields != 0 { return try judgeLabel(piece) }
        let known = name
        name = -1
        if last == 2, !top.isObject { rootArrayIsEmpty = false }
        guard plan.paths != 0, scanner.depth > 0 else { return }
        let progress = top.progress
        if top.isObject {
            guard known >= 0, !scanner.isNull else { return }
            if plan.expectsArray(plan.advance(progress, by: UInt8(known))) { dropScalar(piece) }
        } else if plan.expectsArray(progress) {
            let inside = plan.advance(progress, by: FilterPlan.element)
            let units = plan.units(inside)
            if units & needingLabels != 0 || plan.expectsArray(inside) && !scanner.isNull {
                dropScalar(piece)
            } else if units != 0 {
                counts.kept &+= 1
                counts.unlabelled &+= 1
            }
            scanner.asksForScalar = true
        }
    }

    /// Judges the value of a tier field: a visible tier keeps its unit, anything else removes it.
    private mutating func judgeLabel(_ piece: RawSpan) throws(FilterFault) {
        let tier = tier
        let isVisible = scanner.isString && !scanner.isTooLong && !scanner.hasHalves && plan.isVisible(scanner.text(piece), to: tier)
        guard isVisible else { return try condemnUnits(isLabelled: true, piece) }
        var left = fields
        fields = 0
        name = -1
        while left != 0 {
            let bit = left & (~left &+ 1)
            left &= left &- 1
            switch unit(of: bit) {
            case last: top.labels |= bit
            case let unit?: outer[unit].labels |= bit
            case nil: break
            }
        }
        if held == 1, !isLines, frame(1).labels & plan.anywhere == plan.anywhere { releaseRoot() }
    }

    /// The innermost unit of a filter.
    private func unit(of filter: UInt8) -> Int? {
        top.judges & filter != 0 ? last : (0..<last).last { outer[$0].judges & filter != 0 }
    }

    private mutating func condemnUnits(isLabelled: Bool, _ piece: RawSpan) throws(FilterFault) {
        var left = fields
        fields = 0
        name = -1
        var outermost = Int.max
        while left != 0 {
            if let unit = unit(of: left & (~left &+ 1)) { outermost = min(outermost, unit) }
            left &= left &- 1
        }
        // Removing the outermost removes the others.
        if outermost <= last { try condemn(outermost, isLabelled: isLabelled, piece) }
    }

    private mutating func close(_ piece: RawSpan) throws(FilterFault) {
        if skipped == last { return endSkipping() }
        if last == 2, !top.isObject, rootArrayIsEmpty { rootIsList = true }
        let mark = top.mark
        let leaves = top.judges != 0 ? try judge() : false
        pop(to: last - 1)
        if leaves {
            cut(to: mark, piece)
            resumeCopying()
            askForSeparator(mark)
        }
        askForElements()
    }

    /// Whether the innermost unit, now complete, is removed.
    private mutating func judge() throws(FilterFault) -> Bool {
        let isRoot = last == 1 && !isLines
        if !isRoot, before + scanner.offset - top.start > Self.maxHeld { throw .tooLarge }
        if held == last { held = 0 }
        let isElement = top.isElement
        let labels = top.labels
        if isRoot, !rootIsList, rootNeeds & ~labels != 0 {
            counts = FilterCounts()
            counts.dropUnlabelled()
            throw .aboveTier
        }
        if top.needs & ~labels != 0 {
            counts = top.counts
            rootIsList = top.rootIsList
            counts.dropUnlabelled()
            return true
        }
        if isElement || labels != 0 { counts.kept &+= 1 }
        if isElement, top.judges & ~labels != 0 { counts.unlabelled &+= 1 }
        return false
    }
}
