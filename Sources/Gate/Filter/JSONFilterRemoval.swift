import Wire

/// How what leaves is taken out of what waits.
extension JSONFilter {
    /// The unit leaves: what of it waits is cut off, the rest is passed over.
    mutating func condemn(_ unit: Int, isLabelled: Bool, _ piece: RawSpan) throws(FilterFault) {
        if unit == 1, !isLines {
            counts = FilterCounts(dropped: 1)
            throw .aboveTier
        }
        pop(to: unit)
        guard before + scanner.offset - top.start <= Self.mostHeld else { throw .tooLarge }
        counts = top.counts
        counts.dropped &+= 1
        if !isLabelled { counts.unlabelled &+= 1 }
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
        counts.dropped &+= 1
        counts.unlabelled &+= 1
        cut(to: mark, piece)
        resumeCopying()
        askForSeparator(mark)
    }

    /// Takes back the output from `mark` on.
    mutating func cut(to mark: Int, _ piece: RawSpan) {
        let end = handedOn + pending.count
        if mark >= end {
            pending.append(piece.extracting(copied..<copied + mark - end))
        } else {
            pending.truncate(to: mark - handedOn)
        }
    }

    /// What comes now is output again.
    mutating func resumeCopying() {
        copied = scanner.offset
        shift = handedOn + pending.count - copied
    }

    /// If nothing is before what was removed, the separator behind it goes too.
    mutating func askForSeparator(_ mark: Int) {
        if mark == top.inside { scanner.asksForSeparator = true }
    }

    /// In an array that a path names, scalars are judged as well.
    mutating func askForElements() {
        guard plan.paths != 0, last > 0, !top.isObject else { return }
        if plan.expectsArray(top.progress) { scanner.asksForScalar = true }
    }

    /// The root object goes out before its end; what is open inside it is held for itself.
    mutating func releaseRoot() {
        let end = skipped > 0 ? skipped : last + 1
        held = (2..<max(2, end)).first { frame($0).judges != 0 } ?? 0
    }
}
