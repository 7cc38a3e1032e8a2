import FilterReference
import Gate
import HTTP
import TestThreads
import Testing
import Wire

@testable import Proxy

/// Stages alone and in chains, over random splits, stalls and cuts: they hand on the same, and keep nothing.
@Suite(.ownThread) struct AnswerStageTests {
    private static let reference = ReferenceFilter(paths: ["tier"], tiers: ["free", "premium"], tier: 0)
    private static let plan = plan(["tier"])
    private static let shadow = plan(["tier"], isShadow: true)

    private static func plan(_ paths: [String], isStrict: Bool = true, isShadow: Bool = false) -> FilterPlan {
        FilterPlan(paths.map { try! FilterPath(parsing: $0) }, tiers: .standard, isStrict: isStrict, isShadow: isShadow)
    }

    /// JSON behind the tier filter; nil if that refuses it.
    private static func filtered(_ content: [UInt8]) -> [UInt8]? {
        guard case .passes(let out, _) = reference.filter(content) else { return nil }
        return out
    }

    @Test func aStageAloneHandsOnTheSameHoweverItsContentComes() throws {
        try run(TierFilter(), packs: true) {
            $0.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0)
        }
        try run(TierFilter(), packs: true) {
            $0.begin(Self.shadow, .lowest)
        } expecting: { _ in
            []
        }
        try run(Uppercase()) { _ in
        } expecting: {
            Uppercase.of($0)
        }
        try run(Backwards()) { _ in
        } expecting: {
            Backwards.of($0)
        }
    }

    @Test func aChainHandsOnWhatItsStagesMakeInOrder() throws {
        try run(StageChain(TierFilter(), NoStage()), packs: true) {
            $0.first.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0)
        }
        try run(StageChain(TierFilter(), Uppercase()), packs: true) {
            $0.first.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0).map { Uppercase.of($0) }
        }
        try run(StageChain(TierFilter(), StageChain(Backwards(), Uppercase())), packs: true) {
            $0.first.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0).map { Uppercase.of(Backwards.of($0)) }
        }
        try run(StageChain(TierFilter(), Uppercase())) {
            $0.first.begin(Self.shadow, .lowest)
        } expecting: {
            Uppercase.of($0)
        }
        try run(StageChain(TierFilter(), Backwards())) { _ in
        } expecting: {
            Backwards.of($0)
        }
        try run(StageChain(Backwards(), StageChain(Backwards(), NoStage()))) { _ in
        } expecting: {
            Backwards.of(Backwards.of($0))
        }
    }

    @Test(arguments: [ContentCoding.zstd, .br, .gzip]) func compressionHandsOnWhatTheClientDecodesToTheSame(_ coding: ContentCoding) throws
    {
        let pool = EncoderPool()
        let plan = try #require(CompressionTests.plan())
        var request = CompressionRequest()
        (request.coding, request.padding) = (coding, 9)
        try run(Compression(), coding: coding) {
            $0.begin(plan, request, pool, client: 1)
        } expecting: {
            $0
        }
        try run(StageChain(TierFilter(), Compression()), packs: true, coding: coding) {
            $0.first.begin(Self.plan, .lowest)
            $0.rest.begin(plan, request, pool, client: 1)
        } expecting: {
            Self.filtered($0)
        }
        try run(StageChain(TierFilter(), StageChain(Tee(), Compression())), coding: coding) {
            $0.first.begin(Self.shadow, .lowest)
            $0.rest.rest.begin(plan, request, pool, client: 1)
        } expecting: {
            $0
        }
        #expect(pool.used == 0 && pool.keptBytes > 0)
    }

    @Test func aStageThatWatchesSeesWhatPassesItsPlace() throws {
        try run(StageChain(Tee(), TierFilter())) {
            $0.rest.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0)
        } seeing: {
            $0.first.seen
        } as: {
            $0
        }
        try run(StageChain(TierFilter(), Tee()), packs: true) {
            $0.first.begin(Self.plan, .lowest)
        } expecting: {
            Self.filtered($0)
        } seeing: {
            $0.rest.seen
        } as: {
            Self.filtered($0)
        }
        try run(StageChain(Backwards(), StageChain(Tee(), Uppercase()))) { _ in
        } expecting: {
            Uppercase.of(Backwards.of($0))
        } seeing: {
            $0.rest.first.seen
        } as: {
            Backwards.of($0)
        }
        try run(StageChain(Tee(), Tee())) { _ in
        } expecting: { _ in
            []
        } seeing: {
            $0.first.seen + $0.rest.seen
        } as: {
            $0 + $0
        }
    }

    @Test func aChainHasTheStrongestRoleAndAsksEachStageForTheHead() throws {
        var chain = StageChain(Tee(), TierFilter())
        chain.rest.begin(Self.plan, .lowest)
        #expect([chain.role == .none, chain.mayRefuse] == [true, false])
        try begin(&chain, "Content-Type: application/json\r\n")
        #expect([chain.role == .changes, chain.mayRefuse] == [true, true])
        chain.reset()
        chain.rest.begin(Self.plan(["tier"], isStrict: false), .lowest)
        try begin(&chain, "Content-Type: text/html\r\n")
        #expect([chain.role == .watches, chain.mayRefuse] == [true, false])
    }

    @Test func eachStageSeesTheHeadThatThoseBeforeItHaveLeft() throws {
        let fields = "Content-Type: application/json\r\nContent-Encoding: gzip\r\nETag: \"a\"\r\nX-Watched: 1\r\nVary: Accept\r\n"
        var chain = StageChain(Tee(), StageChain(TierFilter(), Tee()))
        chain.rest.first.begin(Self.plan, .lowest)
        let lines = try begin(&chain, fields)
        #expect(chain.first.head.count == 6)
        #expect(chain.rest.rest.head.prefix(2) == ["Content-Type: application/json", "Vary: Accept"])
        #expect(lines.prefix(3) == ["Content-Type: application/json", "Vary: Accept", "Transfer-Encoding: chunked"])
        #expect(lines[3].hasPrefix("ETag: W/\"a~free."))
        #expect(lines.dropFirst(4) == ["Vary: Authorization", "Cache-Control: private", "X-Watched: tee"])
        // A full table takes what stages add.
        chain.reset()
        chain.rest.first.begin(Self.plan, .lowest)
        let many = (0..<94).map { "X-\($0): \($0)\r\n" }.joined()
        let full = try begin(&chain, fields + many)
        #expect(full.count == 101 && full.last == "X-Watched: tee")
    }

    // MARK: driving a stage as the pump does

    /// Begins an answer, and returns the lines of its head as the stage leaves it.
    @discardableResult
    private func begin<Stage: AnswerStage & ~Copyable>(_ stage: inout Stage, _ fields: String) throws -> [String] {
        var bytes = ByteBuffer()
        bytes.append("HTTP/1.1 200 OK\r\n\(fields)Transfer-Encoding: chunked\r\n\r\n")
        var head = ResponseHead()
        let outcome = head.parse(bytes.readable, requestMethod: .get, limits: HeadLimits())
        try #require(outcome == .complete)
        try stage.head(&head, &bytes, isForHead: false)
        return head.lines(bytes.readable)
    }

    /// The content that the stage hands on, if it receives these pieces; nil if it refuses them.
    private func feed<Stage: AnswerStage & ~Copyable>(
        _ stage: inout Stage, _ pieces: [[UInt8]], isCut: Bool = false, flushing: (Int) -> Bool = { _ in false }
    ) -> [UInt8]? {
        var out = ByteBuffer()
        do throws(FilterFault) {
            for (number, piece) in pieces.enumerated() where stage.role != .none {
                try stage.content(piece.rawBytes, into: &out)
                while stage.isWaiting { try stage.content(RawSpan(), into: &out) }
                if flushing(number), stage.canFlush { try stage.flush(into: &out) }
            }
            if !isCut, stage.role != .none { try stage.end(into: &out) }
        } catch {
            return nil
        }
        return out.readable.array
    }

    /// Runs answers of JSON through the stage, each behind one that is cut: whole, byte by byte and in random pieces.
    private func run<Stage: AnswerStage & ~Copyable>(
        _ made: consuming Stage, packs: Bool = false, coding: ContentCoding = .identity, _ prepare: (inout Stage) -> Void,
        expecting expected: ([UInt8]) -> [UInt8]?,
        seeing seen: (borrowing Stage) -> [UInt8]? = { _ in nil }, as sight: ([UInt8]) -> [UInt8]? = { _ in nil },
        _ place: SourceLocation = #_sourceLocation
    ) throws {
        var stage = made
        var documents = FilterDocuments(random: SplitMix64(seed: 1), allowed: ["free"])
        for seed in 0..<60 {
            var random = SplitMix64(seed: UInt64(seed))
            let content = documents.next()
            let isPacked = packs && seed % 2 == 0
            let sent = isPacked ? Gzip.stored(content) : content
            let fields = "Content-Type: application/json\r\n" + (isPacked ? "Content-Encoding: gzip\r\n" : "")
            for pieces in [[sent], sent.map { [$0] }, Self.split(sent, &random), Self.split(sent, &random)] {
                prepare(&stage)
                try begin(&stage, fields)
                _ = feed(&stage, Array(pieces.prefix(Int.random(in: 0...pieces.count, using: &random))), isCut: true)
                stage.reset()
                let isClean = stage.heldBytes == 0 && !stage.isWaiting && stage.role == .none
                prepare(&stage)
                try begin(&stage, fields)
                let every = Int.random(in: 1...4, using: &random)
                let received = feed(&stage, pieces) { $0 % every == 0 }
                let out = coding == .identity ? received : received.flatMap { CompressionTests.decoded($0, coding) }
                let isEmpty = out == nil || stage.heldBytes == 0
                let isSeen = out == nil || seen(stage) == sight(content)
                stage.reset()
                #expect(isClean && isEmpty && isSeen && stage.heldBytes == 0, "seed \(seed)", sourceLocation: place)
                #expect(out == expected(content), "seed \(seed)", sourceLocation: place)
            }
        }
    }

    private static func split(_ bytes: [UInt8], _ random: inout SplitMix64) -> [[UInt8]] {
        var (pieces, rest) = ([[UInt8]](), bytes[...])
        while !rest.isEmpty {
            let count = Int.random(in: 1...min(rest.count, 40), using: &random)
            pieces.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        return pieces
    }
}

/// Changes each byte at once.
private struct Uppercase: AnswerStage {
    private(set) var role = StageRole.none
    var heldBytes: Int { 0 }

    static func of(_ content: [UInt8]) -> [UInt8] { content.map { 97...122 ~= $0 ? $0 - 32 : $0 } }

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) { role = .changes }
    func content(_ content: RawSpan, into out: inout ByteBuffer) { out.append(Self.of(content.array)) }
    func end(into out: inout ByteBuffer) {}
    mutating func reset() { role = .none }
}

/// Turns blocks of eight bytes around, one at a time, so that it holds some and has more waiting.
private struct Backwards: AnswerStage {
    private(set) var role = StageRole.none
    private var held: [UInt8] = []
    var heldBytes: Int { held.count }
    var isWaiting: Bool { held.count >= 8 }

    static func of(_ content: [UInt8]) -> [UInt8] {
        stride(from: 0, to: content.count, by: 8).flatMap { content[$0..<min($0 + 8, content.count)].reversed() }
    }

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) { role = .changes }

    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) {
        held += content.array
        guard isWaiting else { return }
        out.append(Self.of(Array(held.prefix(8))))
        held.removeFirst(8)
    }

    mutating func end(into out: inout ByteBuffer) {
        out.append(Self.of(held))
        held = []
    }

    mutating func reset() {
        role = .none
        held = []
    }
}

extension ResponseHead {
    /// The fields, as lines.
    fileprivate func lines(_ bytes: RawSpan) -> [String] {
        (0..<fields.count).map { "\(bytes[fields[$0].name].text): \(bytes[fields[$0].value].text)" }
    }
}

/// Keeps a copy of what passes, and puts a field of its own in the place of another.
private struct Tee: AnswerStage {
    private(set) var role = StageRole.none
    private(set) var seen: [UInt8] = []
    private(set) var head: [String] = []
    var heldBytes: Int { 0 }

    mutating func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) {
        role = .watches
        seen = []
        self.head = head.lines(bytes.readable)
        head.change(&bytes, adding: Array("X-Watched: tee\r\n".utf8).rawBytes) { !$1[$0.name].equalsIgnoringCase("x-watched") }
    }

    mutating func content(_ content: RawSpan, into out: inout ByteBuffer) { seen += content.array }
    func end(into out: inout ByteBuffer) {}
    mutating func reset() { role = .none }
}

/// The end of a chain.
private struct NoStage: AnswerStage {
    var role: StageRole { .none }
    var heldBytes: Int { 0 }

    func head(_ head: inout ResponseHead, _ bytes: inout ByteBuffer, isForHead: Bool) {}
    func content(_ content: RawSpan, into out: inout ByteBuffer) {}
    func reset() {}
}
