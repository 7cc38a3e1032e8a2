@testable import Limits
import Testing
import Wire

@testable import Gate

/// A table of ten thousand routes, and the policy made of one.
@Suite struct ManyRoutesTests {
    private static func rules(_ count: Int) -> [RouteRule] {
        var rules = (0..<count).map { rule("r\($0)", "/s\($0)/*") }
        rules += (0..<count / 10).map { rule("h\($0)", "h\($0).example.org/*") }
        rules += [rule("named", "/s17/{id}/review"), rule("put", "PUT /s17/items")]
        return rules
    }

    @Test func eachIsFound() throws {
        let table = try RouteTable(Self.rules(10_000))
        for number in 0..<10_000 { #expect(table.answer("GET", "h", "/s\(number)/x") == "r\(number)") }
        #expect(table.answer("GET", "h0.example.org", "/s1/x") == "h0")
        #expect(table.answer("GET", "h999.example.org:8000", "/") == "h999")
        #expect(table.answer("GET", "h1000.example.org", "/s3/x") == "r3")
        #expect(table.answer("GET", "h", "/s17/4711/review") == "named")
        #expect(table.answer("PUT", "h", "/s17/items") == "put")
        for miss in ["/", "/s10000/x", "/s/x", "/t1/x"] { #expect(table.answer("GET", "h", miss) == "404") }
    }

    /// The nodes that a lookup may look at on its way to the deepest one, siblings included.
    private func maxWalk(_ table: RouteTable) -> Int {
        var longest = 0
        var steps = [Int](repeating: 0, count: table.nodes.count)
        let inner = Set(table.nodes.flatMap { [$0.firstChild, $0.nextSibling, $0.braced] })
        var ahead = table.nodes.indices.filter { !inner.contains(Int32($0)) }
        while let node = ahead.popLast() {
            longest = max(longest, steps[node])
            for next in [table.nodes[node].firstChild, table.nodes[node].nextSibling, table.nodes[node].braced] where next >= 0 {
                steps[Int(next)] = steps[node] + 1
                ahead.append(Int(next))
            }
        }
        return longest
    }

    @Test func aLookupGrowsWithThePathAndNotWithTheRoutes() throws {
        let (some, many) = (try maxWalk(RouteTable(Self.rules(100))), try maxWalk(RouteTable(Self.rules(10_000))))
        // Two more digits, each with ten siblings at most.
        #expect(many <= some + 2 * 11, "\(some) and \(many)")
    }

    @Test func hostsAndPathsThatRepeatAreStillRefused() {
        var twins = Self.rules(1_000)
        twins.append(rule("twin", "H99.example.org./*"))
        #expect(throws: RouteFault.equal("h99", "twin")) { try RouteTable(twins) }
    }

    @Test func limitsAreCompiledWithThePolicyAndNotByEachWorker() throws {
        var limited = rule("limited", "/l/*")
        limited.limits = [try LimitPolicy(parsing: "60/m", tiers: .standard)]
        let hash = KeyedHash(first: 1, second: 2)
        let policy = Policy(try Policy(rules: [limited], trust: AdmissionHarness.trust()), limitsBy: hash)
        let compiled = try #require(policy.limits)
        #expect(CompiledLimits.of(policy, hash) === compiled)
        // Under another hash the same subject has another key.
        let other = CompiledLimits.of(policy, KeyedHash(first: 3, second: 4))
        #expect(other !== compiled && other.lines[0].key != compiled.lines[0].key)
    }

    /// Requests retain these: two workers that shared one would take its reference count from each other with every request.
    @Test func workersShareNoObjectThatRequestsRetain() throws {
        var limited = rule("limited", "/l/*")
        limited.limits = [try LimitPolicy(parsing: "60/m", tiers: .standard)]
        limited.strip = "/l"
        let limiter = SharedLimiter(capacity: 8, hash: KeyedHash(first: 1, second: 2))
        let policy = Policy(try Policy(rules: [limited], trust: AdmissionHarness.trust()), limitsBy: limiter.hash)
        var workers = [Policy]()
        for _ in 0..<2 {
            var admission = Admission(policy: policy, limiter: limiter, cacheCapacity: 8)
            workers.append(admission.policy)
            admission.adopt(policy)
            workers.append(admission.policy)
            #expect(try #require(workers.last?.limits) === admission.limits)
        }
        #expect(Set(workers.map { ObjectIdentifier($0.table) }).count == 4)
        #expect(Set(workers.compactMap { $0.limits.map { ObjectIdentifier($0) } }).count == 4)
        #expect(Set(workers.map { $0.texts.withUnsafeBufferPointer { $0.baseAddress } }).count == 4)
        for worker in workers { #expect(worker.table.answer("GET", "h", "/l/x") == "limited") }
    }
}
