internal import Accounts
internal import Synchronization
internal import System
internal import Wire

/// A copy of the sealed account and certificates in the data folder, for a start while the database is away.
final class AcmeCopy: Sendable {
    private static let largestFile = 16 << 20

    private let folder: String
    private let pending = Mutex<[LiveSwitch]?>(nil)

    init(dataDirectory: String) { folder = dataDirectory }

    private var path: String { folder + "/certificates.sealed" }

    /// The switches as they were kept last; none if they cannot be read.
    func read() -> [LiveSwitch] {
        // Without a copy the start waits for the database.
        guard let bytes = try? FileBytes.read(path, limit: Self.largestFile) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            return words.count == 2 ? LiveSwitch(name: String(words[0]), value: String(words[1]), version: 0) : nil
        }
    }

    /// They are kept with the next `write`. Any thread.
    func changed(_ switches: [LiveSwitch]) {
        let kept = switches.filter { item in
            item.name == AcmeBoard.Subject.account.name || item.name.hasPrefix(AcmeBoard.Subject.certificate("").name)
        }
        pending.withLock { $0 = kept }
    }

    /// Keeps what has changed. Blocks.
    func write() {
        guard let kept = pending.withLock({ $0.take() }) else { return }
        let text = kept.map { "\($0.name) \($0.value)\n" }.joined()
        // A copy that cannot be read is written anew.
        guard !text.isEmpty, (try? FileBytes.read(path, limit: Self.largestFile)) != Array(text.utf8) else { return }
        do throws(SystemFault) {
            try FileBytes.makeDirectory(folder, mode: 0o700)
            try FileBytes.write(Array(text.utf8), to: path, mode: 0o600)
        } catch {
            // Only a start without the database misses it.
        }
    }
}
