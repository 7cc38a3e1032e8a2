import TestThreads
import Testing
import Wire

@testable import Redis

@Suite(.ownThread) struct PendingCommandsTests {
    private func call(_ tag: UInt64, _ time: UInt64, isRepeat: Bool = false) -> PendingCommand {
        PendingCommand(
            purpose: .call(script: nil), tag: tag, sentAt: MonotonicTime(nanoseconds: time), byteCount: 1, isRepeat: isRepeat)
    }

    @Test func `answers belong to the commands in their order`() {
        var commands = PendingCommands()
        for tag in 0..<1_000 as Range<UInt64> { commands.append(call(tag, tag)) }
        for tag in 0..<1_000 as Range<UInt64> {
            #expect(commands.next?.tag == tag)
            commands.removeNext()
        }
        #expect(commands.next == nil && commands.count == 0)
    }

    @Test func `a command that was sent again is as old as it is`() {
        var commands = PendingCommands()
        commands.append(call(1, 50))
        commands.append(call(2, 20, isRepeat: true))
        commands.append(call(3, 60))
        #expect(commands.oldestAwaited() == MonotonicTime(nanoseconds: 20))
        #expect(commands.abandon(sentBy: MonotonicTime(nanoseconds: 19)) == nil)
        #expect(commands.abandon(sentBy: MonotonicTime(nanoseconds: 55)) == 2)
        #expect(commands.abandon(sentBy: MonotonicTime(nanoseconds: 55)) == 1)
        #expect(commands.abandon(sentBy: MonotonicTime(nanoseconds: 55)) == nil)
        #expect(commands.oldestAwaited() == MonotonicTime(nanoseconds: 60))
    }

    /// Against a plain list.
    @Test func `in any order of events the oldest command is abandoned first and none twice`() {
        var random = SplitMix64(seed: 8)
        for _ in 0..<50 {
            var commands = PendingCommands()
            var list: [PendingCommand] = []
            var clock: UInt64 = 100
            var repeated: UInt64 = 0
            for tag in 0..<400 as Range<UInt64> {
                clock += random.next() % 3
                switch random.next() % 8 {
                case 0...3:
                    let command = call(tag, clock)
                    commands.append(command)
                    list.append(command)
                case 4:
                    // Like the driver: repeated commands keep their order.
                    repeated = max(repeated, clock - min(50, clock)) + random.next() % 2
                    let command = call(tag, repeated, isRepeat: true)
                    commands.append(command)
                    list.append(command)
                case 5:
                    guard !list.isEmpty else { continue }
                    #expect(commands.next == list.first)
                    commands.removeNext()
                    list.removeFirst()
                case 6:
                    var own = call(tag, clock)
                    own.purpose = .authenticate
                    commands.append(own)
                    list.append(own)
                default:
                    let limit = MonotonicTime(nanoseconds: clock - random.next() % 40)
                    let oldest = list.indices.filter { list[$0].isAwaited }.min { list[$0].sentAt < list[$1].sentAt }
                    #expect(commands.oldestAwaited() == oldest.map { list[$0].sentAt })
                    let tag = commands.abandon(sentBy: limit)
                    if let oldest, list[oldest].sentAt <= limit {
                        let index = list.firstIndex { $0.tag == tag } ?? oldest
                        #expect(list[index].tag == tag && list[index].sentAt == list[oldest].sentAt)
                        list[index].isAbandoned = true
                    } else {
                        #expect(tag == nil)
                    }
                }
                #expect(commands.count == list.count)
            }
        }
    }
}
