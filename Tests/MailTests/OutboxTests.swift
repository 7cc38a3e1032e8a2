import Foundation
import TestThreads
import Testing
import Wire

@testable import Mail

@Suite(.ownThread) struct OutboxTests {
    private let folder = TemporaryFolder()
    private var outbox: Outbox { Outbox(dataDirectory: folder.path + "/data") }

    private func entry(_ number: Int, _ message: OutgoingMessage = message()) -> OutboxEntry {
        OutboxEntry(message, at: WallTime(seconds: Int64(number)))
    }

    @Test func entriesAreReadInTheirOrder() throws {
        #expect(try outbox.read() == [])
        let sms = message(to: "+4915112345678", body: .sms("123456 is your code.\n\"quoted\" \u{2028} \\"))
        let entries = [entry(1), entry(2, sms)]
        for entry in entries { try outbox.add(entry) }
        #expect(try outbox.read() == entries)
        #expect(entries[0].text.hasPrefix("Enter this code:\n\n    123456\n"))
    }

    @Test func onlyTheOwnerMayReadIt() throws {
        try outbox.add(entry(1))
        let mode = try FileManager.default.attributesOfItem(atPath: outbox.path)[.posixPermissions] as? Int
        #expect(mode == 0o600)
    }

    @Test func itKeepsTheNewest() throws {
        let many = (0..<Outbox.maximumEntries).map { entry($0) }
        try FileManager.default.createDirectory(atPath: folder.path + "/data", withIntermediateDirectories: true)
        try Data(Outbox.encode(many)).write(to: URL(filePath: outbox.path))
        try outbox.add(entry(1_000_000))
        let kept = try outbox.read()
        #expect(kept.count == Outbox.maximumEntries)
        #expect(kept.first == entry(1))
        #expect(kept.last == entry(1_000_000))
    }

    @Test(arguments: [
        "{", "[]", "{}", #"{"at":1}"#, #"{"at":"2026-01-01T00:00:00Z","channel":"pigeon","kind":"k","to":"t","text":"x"}"#, "\u{0}",
    ])
    func aLineThatIsNoMessageIsPassedOver(_ line: String) {
        let good = entry(1)
        #expect(Outbox.decode(Array("\(line)\n".utf8) + Outbox.encode([good]) + Array(line.utf8)) == [good])
    }
}

/// A folder that is gone when the test is over.
final class TemporaryFolder {
    let path: String

    init() {
        path = FileManager.default.temporaryDirectory.path + "/tollgate-test." + UUID().uuidString
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            preconditionFailure("\(error)")
        }
    }

    deinit {
        // A leftover folder does not disturb other tests.
        try? FileManager.default.removeItem(atPath: path)
    }
}
