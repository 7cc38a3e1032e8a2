internal import Accounts
internal import Synchronization
internal import System
internal import Wire

/// A copy of live switches in the data folder, for a start while the database is away: a route that is closed stays closed, and issued
/// certificates, which are sealed, serve.
final class SwitchCopy: Sendable {
    private static let largestFile = 16 << 20

    private struct State {
        var kept: [String: [LiveSwitch]] = [:]
        var isChanged = false
    }

    private let folder: String
    private let state = Mutex(State())

    init(dataDirectory: String) { folder = dataDirectory }

    private var path: String { folder + "/switches" }

    /// Keeps the switches of the board from now on, and gives it those that were kept last.
    func follow(_ board: SwitchBoard) {
        for kind in RouteSwitches.kinds + [AcmeBoard.kind] {
            board.follow(kind) { [self] switches, _ in
                let kept = switches.filter { kind != AcmeBoard.kind || AcmeBoard.isKept($0) }
                state.withLock { state in
                    state.isChanged = state.isChanged || state.kept[kind] != kept
                    state.kept[kind] = kept
                }
            }
        }
        let kept = read()
        if !kept.isEmpty { board.read(kept, isAnew: true) }
    }

    /// Those that were kept last; none if they cannot be read: then the start waits for the database.
    func read() -> [LiveSwitch] {
        // A gateway that starts for the first time has none.
        guard let bytes = try? FileBytes.read(path, limit: Self.largestFile) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ").map(String.init)
            guard words.count == 3, let value = Base64URL.decode(Array(words[2].utf8).rawBytes) else { return nil }
            return LiveSwitch(
                name: words[0], value: String(decoding: value, as: UTF8.self), version: 0,
                expiresAt: words[1] == "-" ? nil : ISO8601.parse(words[1]))
        }
    }

    /// Writes them if they have changed. Main thread.
    func write() {
        let kept = state.withLock { state -> [LiveSwitch]? in
            guard state.isChanged else { return nil }
            state.isChanged = false
            return state.kept.sorted { $0.key < $1.key }.flatMap(\.value)
        }
        guard let kept else { return }
        let lines = kept.map { item in
            "\(item.name) \(item.expiresAt.map(ISO8601.text) ?? "-") \(Base64URL.encode(Array(item.value.utf8).rawBytes))\n"
        }
        do throws(SystemFault) {
            try FileBytes.makeDirectory(folder, mode: 0o700)
            try FileBytes.write(Array(lines.joined().utf8), to: path, mode: 0o600)
        } catch {
            // Only a start without the database misses it.
        }
    }
}
