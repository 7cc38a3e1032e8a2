package import Wire

/// Why an answer cannot go on.
package enum FilterFault: Error, Equatable, Sendable {
    /// The answer is one object, and it is above the caller's tier.
    case aboveTier
    case broken(JSONFault.Kind)
    /// What has to be judged as a whole is larger than what may be held back.
    case tooLarge
    /// The root of the answer is not what a path begins with: no array, or an array in place of an object.
    case noList
}

/// Lets through of a JSON text what a caller of one tier may see, byte for byte, as it arrives in pieces.
///
/// What may leave (a *unit*) is an object, as the element of an array or the member of an object, or any element of an
/// array that a path names. Its bytes wait until its end, for a tier may stand behind everything else, and a second one
/// behind the first. Of nested units only the outermost is held; an inner one that leaves is cut off the end of what
/// waits. With it goes what leads to it, its name and its comma, and if nothing was before it, the comma behind it.
///
/// UniqueArray in the output are counted from its beginning, also those that have been handed on: `mark + shift` is where the
/// byte at an offset of the piece comes to stand.
package struct JSONFilter: ~Copyable {
    private let pin = AddressPin()
    /// Bytes that are held back at most.
    package static let mostHeld = 1 << 20

    var plan = FilterPlan.none
    var tier = Tier.lowest
    /// Lines of JSON texts, of which each may leave like the element of an array.
    var isLines = false
    /// Whether a root that is no array may pass where a path begins with one: errors are objects in every API. An array
    /// never passes where a path begins with a name.
    var toleratesAnyRoot = false

    package internal(set) var counts = FilterCounts()

    var scanner = JSONScanner()
    /// The innermost array or object that is open, or the document: number `last`.
    var top = Frame(mark: 0)
    var last = 0
    /// Those around it, number 0 being the document; what stands behind them is left over, for taking it away would cost.
    var outer: [Frame] = []
    /// The outermost unit that is being held back; 0 for none.
    var held = 0
    /// The unit that is being passed over; 0 for none.
    var skipped = 0
    /// The name whose value comes next, if a filter knows it, else -1; and the filters whose field it is.
    var name = -1
    var fields: UInt8 = 0

    /// Filtered and not handed on yet.
    var pending = ByteBuffer()
    /// Bytes that have been handed on.
    var handedOn = 0
    /// Up to here, the piece is in `pending` or removed.
    var copied = 0
    var shift = 0
    /// Bytes of the pieces before this one.
    var before = 0

    /// One array or object.
    struct Frame {
        /// Where in the output what leads to it begins.
        var mark: Int
        /// Where in the output its first member or element, or the white space before it, begins.
        var inside = 0
        /// Where in the input it begins.
        var start = 0
        var isObject = false
        /// An element of an array, or a line.
        var isElement = false
        /// How far the paths of the filters have come.
        var progress: UInt64 = 0
        /// The filters whose unit it is, those among them without whose field it leaves, and those whose field was there.
        var judges: UInt8 = 0
        var needs: UInt8 = 0
        var labels: UInt8 = 0
        /// What had been counted before it.
        var counts = FilterCounts()
    }

    /// A filter that `begin` makes ready.
    package init() {}

    /// Makes a used filter new, for another text.
    package mutating func begin(_ plan: FilterPlan, tier: Tier, isLines: Bool = false, toleratesAnyRoot: Bool = false) {
        self.plan = plan
        self.tier = tier
        self.isLines = isLines
        self.toleratesAnyRoot = toleratesAnyRoot
        counts = FilterCounts()
        scanner = JSONScanner(isLines: isLines)
        plan.watchNames(in: &scanner)
        top = Frame(mark: 0)
        last = 0
        held = 0
        skipped = 0
        name = -1
        fields = 0
        handedOn = 0
        copied = 0
        shift = 0
        before = 0
        isOver = false
        pending.removeAll()
    }

    /// Lets go of what it knows, and of more memory than should be kept for the next text.
    package mutating func end() {
        plan = .none
        if pending.capacity > 65_536 { pending = ByteBuffer() }
    }

    // MARK: output

    /// What may go on to the caller now.
    package var output: RawSpan { @_lifetime(borrow self) get { pending.readable.extracting(0..<ready) } }

    /// The first `count` bytes of the output have gone on.
    package mutating func handOn(_ count: Int) {
        precondition(count <= ready)
        pending.discard(count)
        handedOn += count
    }

    private var isOver = false

    /// How many bytes of what is pending cannot be taken back any more.
    private var ready: Int {
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
            try take(step, piece)
        }
        if skipped == 0 { pending.append(piece.dropping(copied)) }
        scanner.endPiece(piece.byteCount)
        shift += piece.byteCount
        before += piece.byteCount
        try checkHeld()
    }

    /// The text is over: what is still held may go.
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

    /// What is held back must end within its bound. A root object does not leave: it goes out when it becomes too large.
    private mutating func checkHeld() throws(FilterFault) {
        if held == 1, !isLines, before - frame(1).start > Self.mostHeld { releaseRoot() }
        if held > 0, held > 1 || isLines, before - frame(held).start > Self.mostHeld { throw .tooLarge }
        if held == 0, pending.count - ready > Self.mostHeld { throw .tooLarge }
    }

    private mutating func take(_ step: JSONStep, _ piece: RawSpan) throws(FilterFault) {
        switch step {
        case .starved: break
        case .beginObject: try open(isObject: true, piece)
        case .beginArray: try open(isObject: false, piece)
        case .endObject, .endArray: try close(piece)
        case .key: readName(piece)
        case .scalar: try takeScalar(piece)
        case .separator:
            // Nothing is left before it that it could separate.
            cut(to: scanner.valueEnd + shift, piece)
            resumeCopying()
            scanner.valueEnd = scanner.offset
        }
    }
}

// MARK: - Steps

extension JSONFilter {
    private mutating func readName(_ piece: RawSpan) {
        name = plan.name(scanner.text(piece))
        guard name >= 0 else { return }
        scanner.asksForScalar = true
        fields = plan.fields[name] & top.judges
        if plan.paths != 0 { fields |= plan.fieldsAt(plan.advance(top.progress, by: UInt8(name))) }
    }

    private mutating func open(isObject: Bool, _ piece: RawSpan) throws(FilterFault) {
        if fields != 0 { return try condemnUnits(isLabelled: true, piece) }
        let isElement = last == 0 ? isLines : !top.isObject
        let judges = isObject ? plan.anywhere : 0
        let needs = isElement && plan.requiresField ? judges : 0
        push(
            Frame(
                mark: scanner.lead + shift, inside: scanner.offset + shift, start: before + scanner.offset - 1,
                isObject: isObject, isElement: isElement, judges: judges, needs: needs, counts: counts))
        if plan.paths != 0 {
            if last > 1 { place() }
            if isObject { try refuseObject(piece) } else { try enterArray(piece) }
            if skipped > 0 { return }
        }
        name = -1
        if held == 0, top.judges != 0 { held = last }
    }

    /// How far the paths have come with the array or object just opened.
    private mutating func place() {
        let step = outer[last - 1].isObject ? UInt8(truncatingIfNeeded: name) : FilterPlan.element
        top.progress = plan.advance(outer[last - 1].progress, by: step)
        let units = plan.units(top.progress)
        top.judges |= units
        top.needs |= units
    }

    /// The scalars of an array that a path names are judged too; an array among its elements is not what the path says, nor
    /// is one where the path goes on with a name: nothing inside would be judged.
    private mutating func enterArray(_ piece: RawSpan) throws(FilterFault) {
        if top.judges != 0 { return try condemn(last, isLabelled: false, piece) }
        if plan.expectsObject(top.progress) {
            if last == 1, !isLines { throw .noList }
            return try condemn(last, isLabelled: false, piece)
        }
        scanner.asksForScalar = plan.expectsArray(top.progress)
    }

    /// Where a path names an array, nothing else passes: it would not be judged.
    private mutating func refuseObject(_ piece: RawSpan) throws(FilterFault) {
        guard plan.expectsArray(top.progress) else { return }
        if last == 1, !isLines {
            if !toleratesAnyRoot { throw .noList }
        } else {
            try condemn(last, isLabelled: false, piece)
        }
    }

    private mutating func takeScalar(_ piece: RawSpan) throws(FilterFault) {
        if fields != 0 { return try takeLabel(piece) }
        let known = name
        name = -1
        guard plan.paths != 0, scanner.depth > 0 else { return }
        let progress = top.progress
        if top.isObject {
            guard known >= 0, !scanner.isNull else { return }
            if plan.expectsArray(plan.advance(progress, by: UInt8(known))) { dropScalar(piece) }
        } else if plan.expectsArray(progress) {
            let inside = plan.advance(progress, by: FilterPlan.element)
            if plan.units(inside) != 0 || plan.expectsArray(inside) && !scanner.isNull { dropScalar(piece) }
            scanner.asksForScalar = true
        }
    }

    /// The value of a field: a tier that the caller has lets its object pass, anything else does not.
    private mutating func takeLabel(_ piece: RawSpan) throws(FilterFault) {
        let tier = tier
        let mayPass = scanner.isString && !scanner.isTooLong && plan.mayPass(scanner.text(piece), for: tier)
        guard mayPass else { return try condemnUnits(isLabelled: true, piece) }
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
        top.judges & filter != 0 ? last : outer[..<last].lastIndex { $0.judges & filter != 0 }
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
        // It takes the others with it.
        if outermost <= last { try condemn(outermost, isLabelled: isLabelled, piece) }
    }

    private mutating func close(_ piece: RawSpan) throws(FilterFault) {
        if skipped == last { return endSkipping() }
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

    /// Whether the innermost unit leaves now that all of it was seen.
    private mutating func judge() throws(FilterFault) -> Bool {
        let isRoot = last == 1 && !isLines
        if !isRoot, before + scanner.offset - top.start > Self.mostHeld { throw .tooLarge }
        if held == last { held = 0 }
        let isElement = top.isElement
        let labels = top.labels
        if top.needs & ~labels != 0 {
            counts = top.counts
            counts.dropped &+= 1
            counts.unlabelled &+= 1
            return true
        }
        if isElement || labels != 0 { counts.kept &+= 1 }
        if isElement, top.judges & ~labels != 0 { counts.unlabelled &+= 1 }
        return false
    }
}
