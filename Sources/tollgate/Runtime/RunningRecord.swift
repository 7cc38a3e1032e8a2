internal import Credentials
internal import Glibc
internal import Settings
internal import System
internal import Wire

/// The process that serves with a data folder, and the fingerprints of its settings: `running.json` there, mode 0600, for
/// `tollgate doctor`. Stays behind after a crash, so a reader must see whether the process lives.
struct RunningRecord: Equatable, Sendable {
    var process: Int
    var version: String
    /// base64url of the random key of the fingerprint.
    var key: String
    var settings: String
    /// The fingerprint of each variable that is set; empty in a record of an older version.
    var variables: [String: String] = [:]

    /// Room for the settings of a hundred thousand routes.
    private static let maximumBytes = 16 << 20

    private static func path(_ dataDirectory: String) -> String { dataDirectory + "/running.json" }

    /// Records this process with the settings that came into force.
    static func write(_ settings: Configuration) {
        do throws(SystemFault) {
            try FileBytes.makeDirectory(settings.dataDirectory, mode: 0o700)
            try FileBytes.write(bytes(settings, process: Int(getpid())), to: path(settings.dataDirectory), mode: 0o600)
        } catch {
            // Only `tollgate doctor` reads it, and then cannot compare.
        }
    }

    /// The names of variables are beside those of the record, which are in small letters.
    static func bytes(_ settings: Configuration, process: Int) -> [UInt8] {
        let key = SecureRandom.bytes(32)
        var out = ByteBuffer()
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("process", "\(process)")
            json.field("version", Version.text)
            json.field("key", Base64URL.encode(key.rawBytes))
            json.field("settings", settings.fingerprint(key: key))
            for (name, digest) in settings.fingerprints(key: key).sorted(by: { $0.key < $1.key }) {
                json.key(name)
                json.string(digest)
            }
            json.endObject()
        }
        return out.readable.array
    }

    /// nil if there is none that can be read.
    static func read(_ dataDirectory: String) -> RunningRecord? {
        do throws(SystemFault) {
            return RunningRecord(parsing: try FileBytes.read(path(dataDirectory), limit: maximumBytes))
        } catch {
            return nil
        }
    }

    init?(parsing bytes: [UInt8]) {
        var texts: [String: String] = [:]
        do throws(JSONFault) {
            var reader = JSONReader(bytes.rawBytes)
            guard try reader.next() == .beginObject else { return nil }
            while case .key(let key) = try reader.next() {
                let name = reader.string(key)
                guard case .string(let text) = try reader.next() else { return nil }
                texts[name] = reader.string(text)
            }
        } catch {
            return nil
        }
        guard let process = texts["process"].flatMap({ Int($0) }), let version = texts["version"], let key = texts["key"],
            let settings = texts["settings"]
        else { return nil }
        (self.process, self.version, self.key, self.settings) = (process, version, key, settings)
        variables = texts.filter { !["process", "version", "key", "settings"].contains($0.key) }
    }

    /// Whether these are the settings that the process runs with; nil if the record does not tell.
    func runs(_ settings: Configuration) -> Bool? {
        guard let key = self.key.withRawBytes({ Base64URL.decode($0) }) else { return nil }
        return settings.fingerprint(key: key) == self.settings
    }

    /// The variables that the process runs with other values of, or that only one side sets, in alphabetical order; none if the
    /// record does not tell.
    func differing(from settings: Configuration) -> [String] {
        guard !variables.isEmpty, let key = self.key.withRawBytes({ Base64URL.decode($0) }) else { return [] }
        let ours = settings.fingerprints(key: key)
        return Set(ours.keys).union(variables.keys).filter { ours[$0] != variables[$0] }.sorted()
    }
}
