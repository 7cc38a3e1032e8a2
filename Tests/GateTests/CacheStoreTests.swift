import HTTP
import Testing
import Wire

@testable import Gate

/// The store beside a plain list of what it should hold, and against scans.
@Suite struct CacheStoreTests {
    private func entry(_ key: UInt64, _ serial: UInt64, _ bytes: Int) -> CacheEntry {
        let key = CacheKey(
            bytes: [UInt8](String(key).utf8), hash: LimitKey(high: key, low: key), target: key % 7, route: "r", path: [], generation: 1)
        let head = CacheHead(status: 200, lines: [], length: bytes, receivedAt: MonotonicTime(nanoseconds: 0), age: 0)
        return CacheEntry(key, head, judgement, values: [], content: [UInt8](repeating: 0, count: bytes), serial: serial)
    }

    private let judgement: CacheJudgement = {
        var head = ResponseHead()
        var rule = CacheRule()
        rule.freshSeconds = 60
        let text = Array("HTTP/1.1 200 X\r\nContent-Length: 0\r\n\r\n".utf8)
        _ = head.parse(text.rawBytes, requestMethod: .get, limits: HeadLimits())
        return CacheJudgement(head, text.rawBytes, rule, isShared: true, delay: 0, at: WallTime(seconds: 0))!
    }()

    @Test(arguments: 0..<8) func itHoldsWhatItSaysAndNoMoreThanItsBytes(_ seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var store = CacheStore(capacity: 64 << 10)
        var model: [UInt64: CacheEntry] = [:]
        for serial in 1...3_000 as ClosedRange<UInt64> {
            let key = random.next() % 200
            switch random.next() % 8 {
            case 0:
                if let one = model[key] { store.remove(one) }
                model[key] = nil
            case 1: for one in store.entries(of: key % 7) { one.noteUse() }
            case 2, 3: model[key]?.noteUse()
            default:
                let one = entry(key, serial, Int(random.next() % UInt64(store.largest - 600)))
                let evicted = store.insert(one, insteadOf: model[key])
                model[key] = one
                model = model.filter { pair in !evicted.contains { $0 === pair.value } }
            }
            #expect(store.bytes <= store.capacity && store.count == model.count)
        }
        #expect(store.bytes == model.values.reduce(0) { $0 + $1.size })
        store.removeAll()
        #expect(store.bytes == 0 && store.count == 0)
    }

    @Test func aScanLeavesWhatIsUsed() {
        var store = CacheStore(capacity: 256 << 10)
        let used = (0..<50 as Range<UInt64>).map { entry($0, $0 + 1, 1_000) }
        for one in used {
            _ = store.insert(one)
            for _ in 0..<3 { one.noteUse() }
        }
        for key in 1_000..<20_000 as Range<UInt64> {
            _ = store.insert(entry(key, key, 1_000))
            if key % 40 == 0 { for one in used { one.noteUse() } }
        }
        let held = Set(store.entries { _ in true }.map(\.serial))
        #expect(used.allSatisfy { held.contains($0.serial) })
    }

    @Test func aSelectorHoldsForAllThatItNames() {
        let key = CacheKey(bytes: [], hash: LimitKey(), target: 0, route: "list", path: Array("/api/v1/x".utf8), generation: 1)
        let cases: [(CacheSelector, Bool)] = [
            (CacheSelector(), true), (CacheSelector(route: "list"), true), (CacheSelector(route: "lis"), false),
            (CacheSelector(path: "/api/"), true), (CacheSelector(path: "/api/v2"), false), (CacheSelector(tag: "a"), true),
            (CacheSelector(tag: "c"), false), (CacheSelector(route: "list", path: "/api", tag: "c"), false),
        ]
        for (selector, matches) in cases {
            #expect(selector.matches(key, tags: [Array("a".utf8), Array("b".utf8)]) == matches, "\(selector)")
        }
    }
}
