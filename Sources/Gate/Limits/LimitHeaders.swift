import HTTP
import Wire

/// Rate limit fields: `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) with an item per limit,
/// and the three `X-RateLimit-` fields of the tightest one. Parts that are the same for every request are rendered once per
/// policy, into `CompiledLimits`.
enum LimitHeaders {
    // MARK: once for each policy

    /// Everything before the first number: with one limit, up to the middle of `RateLimit`; otherwise, up to its first item.
    static func head(_ names: [String], _ rates: [LimitRate]) -> [UInt8] {
        var edits = FieldEdits()
        let policies = zip(names, rates).map { "\"\($0)\";q=\($1.count);w=\($1.windowSeconds)" }
        edits.add("RateLimit-Policy" as String, policies.joined(separator: ", "))
        if rates.count == 1 { edits.add("X-RateLimit-Limit", decimal: Int(rates[0].count)) }
        edits.begin("RateLimit")
        if rates.count == 1 { edits.append(item(names[0]).rawBytes) }
        return edits.http1.array
    }

    /// The text before the remaining count of one of several limits.
    static func item(_ name: String) -> [UInt8] { Array("\"\(name)\";r=".utf8) }

    /// The text after the items, when this limit is the tightest of several.
    static func tail(_ rate: LimitRate) -> [UInt8] {
        var edits = FieldEdits()
        edits.end()
        edits.add("X-RateLimit-Limit", decimal: Int(rate.count))
        edits.begin("X-RateLimit-Remaining")
        return edits.http1.array
    }

    /// Ends a field and begins the next.
    static func next(_ name: StaticString) -> [UInt8] {
        var edits = FieldEdits()
        edits.end()
        edits.begin(name)
        return edits.http1.array
    }

    // MARK: for each request

    /// Writes all fields for `verdict` under `row`; `tightest` is the outcome of the tightest limit. Removes the upstream's
    /// own.
    static func write(
        _ verdict: inout LimitVerdict, _ tightest: LimitOutcome, _ sheet: CompiledLimits, _ row: CompiledLimits.Row,
        _ edits: inout FieldEdits
    ) {
        edits.remove(.rateLimit)
        edits.remove(.rateLimitPolicy)
        edits.remove(.xRateLimitLimit)
        edits.remove(.xRateLimitRemaining)
        edits.remove(.xRateLimitReset)
        if tightest.index >= row.count { return writeOwn(tightest, &edits) }
        sheet.append(row.head, to: &edits)
        let remaining = Digits(tightest.remaining)
        let reset = Digits(tightest.resetSeconds)
        if row.count == 1 {
            write(remaining, reset, &edits)
            sheet.append(sheet.remaining, to: &edits)
        } else {
            writeItems(&verdict, sheet, row, &edits)
            sheet.append(sheet.lines[row.first + tightest.index].tail, to: &edits)
        }
        remaining.write(into: &edits)
        sheet.append(sheet.reset, to: &edits)
        reset.write(into: &edits)
        edits.end()
    }

    /// Those of an API key's own limit alone, when it is the tightest.
    private static func writeOwn(_ tightest: LimitOutcome, _ edits: inout FieldEdits) {
        guard let rate = tightest.rate else { return }
        edits.begin("RateLimit-Policy")
        edits.append("\"key\";q=" as StaticString)
        edits.append(decimal: UInt64(rate.count))
        edits.append(";w=" as StaticString)
        edits.append(decimal: UInt64(rate.windowSeconds))
        edits.end()
        edits.begin("RateLimit")
        edits.append("\"key\";r=" as StaticString)
        write(Digits(tightest.remaining), Digits(tightest.resetSeconds), &edits)
        edits.end()
        edits.add("X-RateLimit-Limit", decimal: Int(rate.count))
        edits.add("X-RateLimit-Remaining", decimal: Int(tightest.remaining))
        edits.add("X-RateLimit-Reset", decimal: Int(tightest.resetSeconds))
    }

    private static func writeItems(
        _ verdict: inout LimitVerdict, _ sheet: CompiledLimits, _ row: CompiledLimits.Row, _ edits: inout FieldEdits
    ) {
        var isFirst = true
        for index in 0..<min(verdict.count, row.count) where verdict[index].isKnown {
            if !isFirst { edits.append(", " as StaticString) }
            isFirst = false
            sheet.append(sheet.lines[row.first + index].item, to: &edits)
            write(Digits(verdict[index].remaining), Digits(LimitOutcome.seconds(verdict[index].reset)), &edits)
        }
    }

    private static func write(_ remaining: Digits, _ reset: Digits, _ edits: inout FieldEdits) {
        remaining.write(into: &edits)
        edits.append(";t=" as StaticString)
        reset.write(into: &edits)
    }

    /// A number in decimal, converted once and written twice.
    private struct Digits {
        private let value: UInt64
        private let digits: DecimalDigits

        init(_ value: UInt32) {
            self.value = UInt64(value)
            digits = DecimalDigits(self.value % DecimalDigits.bound)
        }

        func write(into edits: inout FieldEdits) {
            guard value < DecimalDigits.bound else { return edits.append(decimal: value) }
            edits.append(lowBytes: digits.word, count: digits.count)
        }
    }
}
