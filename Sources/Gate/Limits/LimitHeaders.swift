import Wire

/// The header lines about limits: `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) with an
/// item for each limit, and the `X-RateLimit-` three of the tightest. What does not change from request to request is
/// rendered once for each policy and lies in a `LimitSheet`.
enum LimitHeaders {
    // MARK: once for each policy

    /// All up to the first number of a route's limits: behind `r=` where there is one limit, otherwise before the items.
    static func head(_ names: [String], _ rates: [LimitRate]) -> [UInt8] {
        var out = ByteBuffer(capacity: 128)
        let policies = zip(names, rates).map { "\"\($0)\";q=\($1.count);w=\($1.windowSeconds)" }
        out.append("RateLimit-Policy: \(policies.joined(separator: ", "))\r\n")
        if rates.count == 1 {
            out.append("X-RateLimit-Limit: \(rates[0].count)\r\nRateLimit: \"\(names[0])\";r=")
        } else {
            out.append("RateLimit: " as StaticString)
        }
        return out.readable.array
    }

    /// What stands before the number of what remains of one of several limits.
    static func item(_ name: String) -> [UInt8] { Array("\"\(name)\";r=".utf8) }

    /// What stands behind the items, where this limit is the tightest of several.
    static func tail(_ rate: LimitRate) -> [UInt8] {
        Array("\r\nX-RateLimit-Limit: \(rate.count)\r\nX-RateLimit-Remaining: ".utf8)
    }

    // MARK: for each request

    /// All lines about `verdict` under row `row` of the sheet, each with CRLF; `tightest` is what it came to.
    static func write(
        _ verdict: inout LimitVerdict, _ tightest: LimitOutcome, _ sheet: LimitSheet, _ row: LimitSheet.Row,
        _ out: inout ByteBuffer
    ) {
        sheet.append(row.head, to: &out)
        let remaining = Digits(tightest.remaining)
        let reset = Digits(tightest.resetSeconds)
        if row.count == 1 {
            write(remaining, reset, &out)
            out.append("\r\nX-RateLimit-Remaining: " as StaticString)
        } else {
            writeItems(&verdict, sheet, row, &out)
            sheet.append(sheet.lines[row.first + tightest.index].tail, to: &out)
        }
        remaining.write(into: &out)
        out.append("\r\nX-RateLimit-Reset: " as StaticString)
        reset.write(into: &out)
        out.append("\r\n" as StaticString)
    }

    private static func writeItems(
        _ verdict: inout LimitVerdict, _ sheet: LimitSheet, _ row: LimitSheet.Row, _ out: inout ByteBuffer
    ) {
        var isFirst = true
        for index in 0..<verdict.count where verdict[index].isKnown {
            if !isFirst { out.append(", " as StaticString) }
            isFirst = false
            sheet.append(sheet.lines[row.first + index].item, to: &out)
            write(Digits(verdict[index].remaining), Digits(LimitOutcome.seconds(verdict[index].reset)), &out)
        }
    }

    private static func write(_ remaining: Digits, _ reset: Digits, _ out: inout ByteBuffer) {
        remaining.write(into: &out)
        out.append(";t=" as StaticString)
        reset.write(into: &out)
    }

    /// A number in decimal, worked out once for the two places where each stands.
    private struct Digits {
        private let value: UInt64
        private let digits: DecimalDigits

        init(_ value: UInt32) {
            self.value = UInt64(value)
            digits = DecimalDigits(self.value % DecimalDigits.bound)
        }

        func write(into out: inout ByteBuffer) {
            guard value < DecimalDigits.bound else { return out.append(decimal: value) }
            out.append(lowBytes: digits.word, count: digits.count)
        }
    }
}
