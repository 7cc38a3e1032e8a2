internal import Credentials
internal import Glibc
internal import Settings
internal import Transport
internal import Wire

/// The process that serves with a data folder, and the fingerprint of its settings: `running.json` there, mode 0600, for
/// `tollgate doctor`. Stays behind after a crash, so a reader must see whether the process lives.
struct RunningRecord: Equatable, Sendable {
    var process: Int
    var version: String
    /// base64url of the random key of the fingerprint.
    var key: String
    var settings: String

    private static func path(_ dataDirectory: String) -> String { dataDirectory + "/running.json" }

    /// Records this process with the settings that came into force.
    static func write(_ settings: Configuration) {
        let key = SecureRandom.bytes(32)
        var out = ByteBuffer()
        JSONWriter.append(to: &out) { json in
            json.beginObject()
            json.field("process", "\(getpid())")
            json.field("version", Version.text)
            json.field("key", Base64URL.encode(key.rawBytes))
            json.field("settings", settings.fingerprint(key: key))
            json.endObject()
        }
        do throws(SystemFault) {
            try FileBytes.makeDirectory(settings.dataDirectory, mode: 0o700)
            try FileBytes.write(out.readable.array, to: path(settings.dataDirectory), mode: 0o600)
        } catch {
            // Only `tollgate doctor` reads it, and then cannot compare.
        }
    }

    /// nil if there is none that can be read.
    static func read(_ dataDirectory: String) -> RunningRecord? {
        do throws(SystemFault) {
            return RunningRecord(parsing: try FileBytes.read(path(dataDirectory), limit: 4_096))
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
        guard let process = texts["process"].flatMap({ Int($0) }), let version = texts["version"], let key = texts["key"], let settings = texts["settings"] else { return nil }
        (self.process, self.version, self.key, self.settings) = (process, version, key, settings)
    }

    /// Whether these are the settings that the process runs with; nil if the record does not tell.
    func runs(_ settings: Configuration) -> Bool? {
        guard let key = self.key.withRawBytes({ Base64URL.decode($0) }) else { return nil }
        return settings.fingerprint(key: key) == self.settings
    }
}
