import Gate
import HTTP
import TestThreads
import Testing
import Transport
import Wire

@testable import Proxy

/// Nothing above the caller's tier leaves the cache, and no answer that was made for another: over random callers, answers of the upstream,
/// cuts, cancels, purges and times.
@Suite(.ownThread, .timeLimit(.minutes(5))) struct CachePropertyTests {
    private struct Caller {
        let line: Line
        let user: String?
        let tier: String?
        var received: [UInt8] = []
        var isOver = false
    }

    private static let people: [(user: String?, tier: String?)] = [
        (nil, nil), ("anna", "free"), ("otto", "premium"), ("emil", "premium"), ("ida", "free"),
    ]

    @Test(arguments: CacheRule.Sharing.allCases, 0..<4) func noCallerGetsWhatIsNotItsOwn(_ sharing: CacheRule.Sharing, _ seed: Int) throws {
        var random = SplitMix64(seed: UInt64(seed) * 3 + UInt64(sharing.rawValue))
        let bench = try CacheBench { rule in
            rule.cache.sharing = sharing
            (rule.cache.staleSeconds, rule.cache.errorSeconds) = (seed % 2 == 0 ? 5 : nil, seed > 1 ? 20 : nil)
            rule.filters = [try! FilterPath(parsing: "tier")]
        }
        var (callers, asked, hits, prepared): ([Caller], [(number: Int, request: String)], Int, Int) = ([], [], 0, 0)
        for _ in 0..<400 {
            switch random.next() % 12 {
            case 0...4:
                let (user, tier) = Self.people[Int(random.next() % 5)]
                let request = CacheBench.request("/\(random.next() % 3)", user: user, tier: tier)
                callers.append(Caller(line: try bench.client(request), user: user, tier: tier))
            case 5...7: if let question = asked.popLast() { answer(question, &random, bench) }
            case 8: if let caller = callers.indices.randomElement(using: &random) { leave(&callers[caller]) }
            case 9: bench.stepped.post(.cache(.select(CacheSelector(path: "/\(random.next() % 3)"), removes: true) { _ in }))
            default: bench.stepped.advance(milliseconds: random.next() % 4_000)
            }
            for _ in 0..<3 { bench.stepped.turn() }
            while let question = bench.poll() { asked.append(question) }
            read(&callers)
        }
        for _ in 0..<50 {
            while let question = asked.popLast() { answer(question, &random, bench) }
            for _ in 0..<5 { bench.stepped.turn() }
            while let question = bench.poll() { asked.append(question) }
            read(&callers)
        }
        for caller in callers {
            let text = String(decoding: caller.received, as: UTF8.self)
            #expect(caller.tier == "premium" || !text.contains("secret"), "\(caller.user ?? "nobody") of seed \(seed): \(text)")
            let own =
                switch sharing {
                case .everyone: "of []"
                case .tier: "of [\(caller.tier ?? "")]"
                case .user: "of [\(caller.user ?? "")]"
                }
            #expect(text.ranges(of: "of [").count == text.ranges(of: own).count, "\(caller.user ?? "nobody") of seed \(seed): \(text)")
            if text.contains("tollgate; hit") { hits += 1 }
            // Filtered content has no length while it is made.
            if text.contains("tollgate; hit"), text.contains("Content-Length") { prepared += 1 }
            caller.line.close()
        }
        #expect(hits > 10 && (sharing == .user || prepared > 0), "\(hits), \(prepared)")
        // Nothing is left behind.
        for _ in 0..<50 { bench.stepped.turn() }
        #expect(bench.stepped.worker.cache.flights.isEmpty && bench.stepped.worker.cache.fetchedBytes == 0)
        #expect(bench.stepped.worker.exchanges.count == 0 && bench.stepped.worker.downstream.clients.count == 0)
    }

    private func leave(_ caller: inout Caller) {
        guard !caller.isOver else { return }
        caller.line.reset()
        caller.isOver = true
    }

    /// Takes what has come for each.
    private func read(_ callers: inout [Caller]) {
        for index in callers.indices where !callers[index].isOver {
            while callers[index].line.isReady(milliseconds: 0) {
                do {
                    guard let more = try callers[index].line.receive() else { throw TestFault("closed") }
                    callers[index].received += more
                } catch {
                    // Its answer was cut, or it has left.
                    callers[index].isOver = true
                    break
                }
            }
        }
    }

    /// The upstream's answer, which says for whom it was made; whole, in pieces, broken off, or not to be stored.
    private func answer(_ question: (number: Int, request: String), _ random: inout SplitMix64, _ bench: CacheBench) {
        guard let line = bench.numbered[question.number] else { return }
        do { try send(question, on: line, &random, bench) } catch {
            // The last who waited has left.
            bench.close(question.number)
        }
    }

    private func send(
        _ question: (number: Int, request: String), on line: Line, _ random: inout SplitMix64, _ bench: CacheBench
    ) throws {
        let teller = question.request.value(of: "X-User-Id") ?? question.request.value(of: "X-User-Tier") ?? ""
        let list = #"[{"tier":"free","made":"of [\#(teller)]"},{"tier":"premium","secret":"of [\#(teller)]"}]"#
        let caching = ["", "Cache-Control: no-store\r\n", "Cache-Control: private\r\n", "Cache-Control: max-age=2\r\n", "ETag: \"a\"\r\n"]
        let fields = "Content-Type: application/json\r\n" + caching[Int(random.next() % 5)]
        let half = list.utf8.count / 2
        if question.request.value(of: "If-None-Match") != nil, random.next() % 2 == 0 {
            return try line.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
        }
        switch random.next() % 6 {
        case 0: try line.send("HTTP/1.1 500 X\r\n\(fields)Content-Length: 2\r\n\r\n{}")
        case 1: bench.close(question.number)
        case 2:
            try line.send("HTTP/1.1 200 OK\r\n\(fields)Content-Length: \(list.utf8.count)\r\n\r\n\(list.prefix(half))")
            bench.stepped.turn()
            if random.next() % 2 == 0 { bench.close(question.number) } else { try line.send(String(list.dropFirst(half))) }
        case 3:
            try line.send(
                "HTTP/1.1 200 OK\r\n\(fields)Transfer-Encoding: chunked\r\n\r\n\(String(list.utf8.count, radix: 16))\r\n\(list)\r\n0\r\n\r\n"
            )
        default: try line.send("HTTP/1.1 200 OK\r\n\(fields)Content-Length: \(list.utf8.count)\r\n\r\n\(list)")
        }
    }
}

extension CacheBench {
    /// A request of the worker that has come already, and the number of its connection.
    func poll() -> (number: Int, request: String)? {
        do {
            while Line(listener).isReady(milliseconds: 0) {
                numbered[accepted] = try Line(acceptedFrom: listener)
                accepted += 1
            }
        } catch {
            Issue.record("\(error)")
        }
        for (number, line) in numbered.sorted(by: { $0.key < $1.key }) where line.isReady(milliseconds: 0) {
            do {
                guard let first = try line.receive(1) else { throw TestFault("closed") }
                return (number, String(decoding: first, as: UTF8.self) + (try line.receiveMessage()))
            } catch {
                close(number)
                return poll()
            }
        }
        return nil
    }

    /// Closes a connection to the upstream.
    func drop(_ line: Line) {
        for (number, one) in numbered where one.socket.descriptor == line.socket.descriptor { close(number) }
    }

    func close(_ number: Int) { numbered.removeValue(forKey: number)?.close() }
}
