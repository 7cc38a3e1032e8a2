internal import HTTP
package import Wire

/// Entity tags per tier, so that a cache entry of one tier never validates for another.
///
/// The upstream's `"x"` becomes `W/"x~free.1a2b3c4d"` for the tier `free`; the digits are a fingerprint of the filters.
/// `~w` or `~s` in front of the tier's mark says that the upstream's tag was weak, or strong with such an end itself.
/// Weak, because the caller does not receive the bytes that the upstream's tag stands for.
extension FilterPlan {
    /// Suffix of the opaque part of a tag that was weak already.
    private static let weakSuffix: StaticString = "~w"
    /// Suffix of one that was strong and ends like a suffix.
    private static let strongSuffix: StaticString = "~s"

    /// Appends an upstream's tag as one of `tier`; nothing if it is malformed.
    package func write(_ tag: RawSpan, for tier: Tier, into out: inout ByteBuffer) {
        guard let inner = EntityTag(tag) else { return }
        out.append("W/\"")
        out.append(tag[inner.text])
        if inner.isWeak {
            out.append(Self.weakSuffix)
        } else if tag[inner.text].hasSuffix(Self.weakSuffix) || tag[inner.text].hasSuffix(Self.strongSuffix) {
            out.append(Self.strongSuffix)
        }
        appendMark(of: tier, to: &out)
        out.append("\"")
    }

    /// Appends the tags of `list` as the upstream knows them: those of `tier`, and with `keepsOthers` the others unchanged.
    /// Returns whether there were any.
    package func restore(_ list: RawSpan, for tier: Tier, keepsOthers: Bool, into out: inout ByteBuffer) -> Bool {
        var hasAny = false
        var offset = 0
        while let tag = EntityTag(list, from: &offset) {
            var wasRestored = false
            let start = out.count
            if hasAny { out.append(", ") }
            wasRestored = appendRestored(ContentCoding.withoutMark(list[tag.text]), tier, &out)
            if !wasRestored, keepsOthers {
                out.append(list[tag.whole])
                wasRestored = true
            }
            if wasRestored { hasAny = true } else { out.truncate(to: start) }
        }
        return hasAny
    }

    private func appendRestored(_ text: RawSpan, _ tier: Tier, _ out: inout ByteBuffer) -> Bool {
        let mark = markText(of: tier)
        guard text.byteCount >= mark.count, text.dropping(text.byteCount - mark.count).equals(mark.rawBytes) else { return false }
        let inner = text.extracting(0..<text.byteCount - mark.count)
        let isWeak = inner.hasSuffix(Self.weakSuffix)
        let isMarked = isWeak || inner.hasSuffix(Self.strongSuffix)
        out.append(isWeak ? "W/\"" as StaticString : "\"")
        out.append(inner.extracting(0..<inner.byteCount - (isMarked ? Self.weakSuffix.utf8CodeUnitCount : 0)))
        out.append("\"")
        return true
    }
}

/// One entity tag (RFC 9110, 8.8.3), as offsets into its source.
struct EntityTag {
    /// Including quotes and `W/`.
    var whole: Slice
    /// Inside the quotes.
    var text: Slice
    var isWeak: Bool

    /// Parses a single tag.
    init?(_ bytes: RawSpan) {
        var offset = 0
        guard let tag = EntityTag(bytes, from: &offset), tag.whole.end == bytes.byteCount else { return nil }
        self = tag
    }

    /// The next tag of a list; nil at its end, or if it is malformed.
    init?(_ list: RawSpan, from offset: inout Int) {
        while offset < list.byteCount, [0x20, 0x09, UInt8(ascii: ",")].contains(list[offset]) { offset += 1 }
        let start = offset
        isWeak = list.dropping(start).hasPrefix("W/")
        if isWeak { offset += 2 }
        guard offset < list.byteCount, list[offset] == UInt8(ascii: "\"") else { return nil }
        guard let end = list.firstIndex(of: UInt8(ascii: "\""), from: offset + 1) else { return nil }
        text = Slice(start: offset + 1, count: end - offset - 1)
        offset = end + 1
        whole = Slice(start: start, count: offset - start)
    }
}

extension RawSpan {
    fileprivate func hasSuffix(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        return byteCount >= count && dropping(byteCount - count).equals(text)
    }
}
