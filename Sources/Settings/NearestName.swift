/// The edit distance of two words (optimal string alignment): the number of bytes to insert, delete, replace or swap with a
/// neighbour.
package func editDistance(_ left: some StringProtocol, _ right: some StringProtocol) -> Int {
    let a = Array(left.utf8), b = Array(right.utf8)
    guard !a.isEmpty, !b.isEmpty else { return max(a.count, b.count) }
    var beforeLast = [Int](repeating: 0, count: b.count + 1)
    var last = Array(0...b.count)
    for i in 1...a.count {
        var row = [Int](repeating: i, count: b.count + 1)
        for j in 1...b.count {
            row[j] = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1))
            if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] { row[j] = min(row[j], beforeLast[j - 2] + 1) }
        }
        beforeLast = last
        last = row
    }
    return last[b.count]
}

/// The one of `names` with the smallest edit distance to `word`, the first of several; nil if there are no names. For messages.
package func nearestName(to word: some StringProtocol, in names: some Sequence<String>) -> String? {
    let cut = word.prefix(128)
    var best: (name: String, distance: Int)?
    for name in names {
        let distance = editDistance(cut, name)
        if distance < best?.distance ?? Int.max { best = (name, distance) }
    }
    return best?.name
}
