import Wire

/// Removal of units from the output.
extension JSONFilter {
    /// Removes a unit: cuts off its held bytes and skips the rest of it.
    mutating func condemn(_ unit: Int, isLabelled: Bool, _ piece: RawSpan) throws(FilterFault) {
        if unit == 1, !isLines {
            counts = FilterCounts(dropped: 1)
            throw .aboveTier
        }
        pop(to: unit)
        guard before + scanner.offset - top.start <= Self.maxHeld else { throw .tooLarge }
        counts = top.counts
        rootIsList = top.rootIsList
        if isLabelled { counts.dropped &+= 1 } else { counts.dropUnlabelled() }
        cut(to: top.mark, piece)
        skipped = unit
        scanner.quietDepth = unit
        name = -1
        fields = 0
        if held >= unit { held = 0 }
    }

    mutating func endSkipping() {
        let mark = top.mark
        pop(to: last - 1)
        skipped = 0
        scanner.quietDepth = .max
        resumeCopying()
        askForSeparator(mark)
        askForElements()
    }

    mutating func dropScalar(_ piece: RawSpan) {
        let mark = scanner.lead + shift
        counts.dropUnlabelled()
        cut(to: mark, piece)
        resumeCopying()
        askForSeparator(mark)
    }

    /// Truncates the output to `mark`.
    mutating func cut(to mark: Int, _ piece: RawSpan) {
        let end = handedOn + pending.count
        if mark >= end {
            pending.append(piece.extracting(copied..<copied + mark - end))
        } else {
            pending.truncate(to: mark - handedOn)
        }
    }

    /// Copies from the current offset again.
    mutating func resumeCopying() {
        copied = scanner.offset
        shift = handedOn + pending.count - copied
    }

    /// Asks for the next comma, if the removed unit was the first of its array or object.
    mutating func askForSeparator(_ mark: Int) {
        if mark == top.inside { scanner.asksForSeparator = true }
    }

    /// Asks for scalars in an array that a path names, which are judged too.
    mutating func askForElements() {
        guard plan.paths != 0, last > 0, !top.isObject else { return }
        if plan.expectsArray(top.progress) { scanner.asksForScalar = true }
    }

    /// Enforces `maxHeld`. A root object is never removed, so it is released instead, unless it may still be refused for want
    /// of a label.
    mutating func checkHeld() throws(FilterFault) {
        if held == 1, !isLines, before - frame(1).start > Self.maxHeld {
            if !rootIsList, rootNeeds & ~frame(1).labels != 0 { throw .tooLarge }
            releaseRoot()
        }
        if held > 0, held > 1 || isLines, before - frame(held).start > Self.maxHeld { throw .tooLarge }
        if held == 0, pending.count - ready > Self.maxHeld { throw .tooLarge }
    }

    /// Releases the root object before its end; units inside it are held on their own.
    mutating func releaseRoot() {
        let end = skipped > 0 ? skipped : last + 1
        held = (2..<max(2, end)).first { frame($0).judges != 0 } ?? 0
    }
}
