import HTTP
import Testing
import Wire

/// A frame as bytes.
struct TestFrame {
    var first: UInt8
    var payload: Int
    var isMasked: Bool

    /// Its header in the shortest form.
    var header: [UInt8] {
        var bytes = [first]
        let mask: UInt8 = isMasked ? 0x80 : 0
        switch payload {
        case 0..<126: bytes.append(mask | UInt8(payload))
        case 126..<65_536: bytes += [mask | 126, UInt8(payload >> 8), UInt8(payload & 255)]
        default:
            bytes.append(mask | 127)
            bytes += withUnsafeBytes(of: UInt64(payload).bigEndian) { [UInt8]($0) }
        }
        return bytes + (isMasked ? [1, 2, 3, 4] : [])
    }

    var bytes: [UInt8] { header + (0..<payload).map { UInt8(truncatingIfNeeded: $0) } }
}

@Suite struct WebSocketFlowTests {
    /// The rules for a frame that a proxy holds both sides to, said once more.
    private func isAllowed(_ first: UInt8, _ second: UInt8, from side: WebSocketSide, hasExtensions: Bool, topBit: Bool) -> Bool {
        let isMasked = second >= 128
        if isMasked != (side == .client) || topBit { return false }
        let opcode = first % 16
        if opcode >= 8, first < 128 || second % 128 > 125 { return false }
        return hasExtensions || (first / 16 % 8 == 0 && [0, 1, 2, 8, 9, 10].contains(opcode))
    }

    @Test("Every first two bytes of a header, from both sides, with and without extensions")
    func everyHeader() {
        for side in WebSocketSide.allCases {
            for hasExtensions in [false, true] {
                for word in 0..<65_536 {
                    let (first, second) = (UInt8(word >> 8), UInt8(word & 255))
                    let topBit = second % 128 == 127 && word % 3 == 0
                    var header = [first, second]
                    if second % 128 == 126 { header += [1, 0] }
                    if second % 128 == 127 { header += [topBit ? 0x80 : 0, 0, 0, 0, 0, 1, 0, 0] }
                    if second >= 128 { header += [9, 9, 9, 9] }
                    var flow = WebSocketFlow(from: side, hasExtensions: hasExtensions)
                    let step = flow.advance(header.rawBytes)
                    let isAllowed = isAllowed(first, second, from: side, hasExtensions: hasExtensions, topBit: topBit)
                    let controls = isAllowed && first % 16 >= 8 ? 1 : 0
                    let wanted = WebSocketFlow.Step(count: isAllowed ? header.count : 0, controls: controls, isFaulty: !isAllowed)
                    guard step != wanted else { continue }
                    Issue.record("\(side) \(hasExtensions) \(first) \(second): \(step)")
                    return
                }
            }
        }
    }

    @Test("A header goes on when all of it is there, in every split", arguments: [0, 1, 125, 126, 65_535, 65_536, 1 << 40])
    func splitHeaders(payload: Int) {
        for side in WebSocketSide.allCases {
            let header = TestFrame(first: 0x82, payload: payload, isMasked: side == .client).header
            for split in 0..<header.count {
                var flow = WebSocketFlow(from: side, hasExtensions: false)
                #expect(flow.advance(header[..<split].asArray.rawBytes).count == 0)
                #expect(flow.mayClose)
                #expect(flow.advance(header.rawBytes).count == header.count)
                #expect(flow.mayClose == (payload == 0))
            }
        }
    }

    @Test("Frames pass unchanged whatever their split, and a close frame may come only between two", arguments: 0..<200 as Range<UInt64>)
    func everySplit(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let side = WebSocketSide.allCases.randomElement(using: &random)!
        let hasExtensions = Bool.random(using: &random)
        var sent: [UInt8] = []
        var boundaries: Set<Int> = [0]
        for _ in 0..<Int.random(in: 1...12, using: &random) {
            let isControl = Bool.random(using: &random)
            let opcode: UInt8 = isControl ? [9, 10].randomElement(using: &random)! : [0, 1, 2].randomElement(using: &random)!
            let bits: UInt8 = hasExtensions ? UInt8.random(in: 0..<8, using: &random) << 4 : 0
            let payload =
                isControl ? Int.random(in: 0...125, using: &random) : [0, 1, 125, 126, 300, 65_535, 70_000].randomElement(using: &random)!
            let isFinal = isControl || Bool.random(using: &random)
            sent += TestFrame(first: (isFinal ? 0x80 : 0) | bits | opcode, payload: payload, isMasked: side == .client).bytes
            boundaries.insert(sent.count)
        }
        var flow = WebSocketFlow(from: side, hasExtensions: hasExtensions)
        var passed = 0
        var arrived = 0
        while arrived < sent.count {
            arrived = min(sent.count, arrived + Int.random(in: 1...[3, 20, 40_000].randomElement(using: &random)!, using: &random))
            let step = flow.advance(sent[passed..<arrived].asArray.rawBytes)
            #expect(!step.isFaulty)
            passed += step.count
            #expect(arrived - passed < WebSocketFrameHeader.longest)
            #expect(flow.mayClose == boundaries.contains(passed))
        }
        #expect(passed == sent.count)
    }

    @Test("Nothing follows a close frame")
    func closeIsLast() {
        let close = TestFrame(first: 0x88, payload: 5, isMasked: false).bytes
        let late = TestFrame(first: 0x81, payload: 3, isMasked: false).bytes
        var flow = WebSocketFlow(from: .server, hasExtensions: false)
        #expect(flow.advance(close[..<4].asArray.rawBytes).count == 4)
        #expect(!flow.isOver && !flow.mayClose)
        #expect(flow.advance((close[4...].asArray + late).rawBytes).count == close.count - 4)
        #expect(flow.isOver && !flow.mayClose)
        #expect(flow.advance(late.rawBytes).count == 0)
    }

    @Test("A flow that is ended completes its frame and begins none")
    func endsWithItsFrame() {
        let frame = TestFrame(first: 0x82, payload: 10, isMasked: true).bytes
        var flow = WebSocketFlow(from: .client, hasExtensions: false)
        #expect(flow.advance(frame[..<8].asArray.rawBytes).count == 8)
        #expect(flow.advance((frame[8...].asArray + frame).rawBytes, endsFrame: true).count == frame.count - 8)
        #expect(flow.mayClose)
        flow.closed()
        #expect(flow.isOver)
    }

    @Test("No bytes make it pass more than there are")
    func fuzz() {
        var random = SplitMix64(seed: 11)
        for _ in 0..<fuzzRounds {
            var flow = WebSocketFlow(from: .allCases.randomElement(using: &random)!, hasExtensions: .random(using: &random))
            var waiting: [UInt8] = []
            for _ in 0..<4 {
                waiting += (0..<Int.random(in: 0...40, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) & 0x8F }
                let step = flow.advance(waiting.rawBytes, endsFrame: Int.random(in: 0..<8, using: &random) == 0)
                #expect(step.count <= waiting.count)
                waiting.removeFirst(step.count)
                if step.isFaulty || flow.isOver { break }
            }
        }
    }

    @Test("A close frame of the gateway is masked towards a server only")
    func closeFrames() {
        let close = WebSocketClose(4401, "token expired")
        for side in WebSocketSide.allCases {
            var out = ByteBuffer()
            close.write(to: side, into: &out)
            let reason = Array("token expired".utf8)
            #expect(out.readable.array == (side == .client ? [0x88, 15, 0x11, 0x31] : [0x88, 0x8F, 0, 0, 0, 0, 0x11, 0x31]) + reason)
            var flow = WebSocketFlow(from: side == .client ? .server : .client, hasExtensions: false)
            #expect(flow.advance(out.readable).count == out.count && flow.isOver)
        }
    }
}

extension ArraySlice<UInt8> {
    fileprivate var asArray: [UInt8] { Array(self) }
}
