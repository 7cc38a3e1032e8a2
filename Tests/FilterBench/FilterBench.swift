import Gate
import Glibc
import Wire

/// How fast the tier filter is, on one core: `swift run -c release FilterBench`. Lists of passages, as servers send them,
/// arrive in pieces of 64 KiB; the best of seven runs counts.
@main struct FilterBench {
    static func main() throws {
        let forms = try ["tier", "results[].tier"].map { ($0, try plan($0)) }
        print("filter             text of an element   size     removed  GB/s")
        for words in [4, 10, 25, 100] {
            for size in [20 << 10, 2 << 20] {
                for (name, plan) in forms {
                    for removed in [0, 2] {
                        let text = list(size: size, words: words) { removed > 0 && $0 % removed == 1 ? "premium" : "free" }
                        let speed = try measure(plan, text)
                        let columns = [
                            pad(name, 19), pad("\(words * 45) bytes", 21), pad("\(size >> 10) KiB", 9),
                            pad(removed > 0 ? "half" : "none", 9),
                        ]
                        print(columns.joined() + "\(Double(Int(speed * 100)) / 100)")
                    }
                }
            }
        }
    }

    private static func plan(_ path: String) throws -> FilterPlan {
        FilterPlan([try FilterPath(parsing: path)], tiers: .standard, isStrict: false, isShadow: false)
    }

    private static func pad(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    private static func list(size: Int, words: Int, tier: (Int) -> String) -> [UInt8] {
        let content = String(repeating: "The quick brown fox jumps over the lazy dog. ", count: words)
        var out = Array(#"{"count":1000,"next":null,"previous":null,"results":["#.utf8)
        var number = 0
        while out.count < size {
            if number > 0 { out.append(UInt8(ascii: ",")) }
            out += Array(
                #"{"id":\#(number),"title":"Passage number \#(number)","slug":"passage-\#(number)","content":"\#(content)","language":"en","difficulty":3,"word_count":\#(words * 9),"created_at":"2026-01-02T03:04:05Z","tags":["reading","b2"],"tier":"\#(tier(number))"}"#
                    .utf8)
            number += 1
        }
        return out + Array("]}".utf8)
    }

    /// Bytes a nanosecond.
    private static func measure(_ plan: FilterPlan, _ text: [UInt8]) throws -> Double {
        var filter = JSONFilter()
        var best = UInt64.max
        let rounds = max(1, (16 << 20) / text.count)
        for _ in 0..<7 {
            let start = cpuTime()
            for _ in 0..<rounds {
                filter.begin(plan, tier: .lowest)
                var offset = 0
                while offset < text.count {
                    let end = min(text.count, offset + 65_536)
                    try filter.feed(text.rawBytes.extracting(offset..<end))
                    offset = end
                    let count = filter.output.byteCount
                    filter.handOn(count)
                }
                try filter.finish()
                let count = filter.output.byteCount
                filter.handOn(count)
            }
            best = min(best, (cpuTime() - start) / UInt64(rounds))
        }
        return Double(text.count) / Double(best)
    }

    private static func cpuTime() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
