package import Credentials
package import System
package import Wire

/// The disk cache of outside issuers' key sets (`jwks/NAME.json` in the data folder), for a restart while an issuer is down. The keys
/// are public, but write access to them would allow forging tokens: mode 0600.
package struct KeyCache: Sendable {
    /// A cached key set.
    package struct Kept: Sendable {
        package let keys: KeySet
        package let fetchedAt: WallTime
    }

    private let folder: String

    package init(dataDirectory: String) { folder = dataDirectory + "/jwks" }

    private func path(_ name: String) -> String { "\(folder)/\(name).json" }

    /// The issuer's cached keys, if they came from this URL and are not stale. An unusable file counts as missing. Blocks.
    package func load(_ name: String, url: String, now: WallTime) -> Kept? {
        guard let bytes = read(name), let (from, fetchedAt, jwks) = Self.parse(bytes), from == url else { return nil }
        let age = now.microseconds - fetchedAt * 1_000_000
        guard age < Int64(JWKSSchedule.maxStale) * 1000, let keys = Self.keys(jwks) else { return nil }
        return Kept(keys: keys, fetchedAt: WallTime(seconds: fetchedAt))
    }

    /// Caches a document that `KeySet` has parsed. Blocks.
    package func save(_ name: String, url: String, document: [UInt8], now: WallTime) throws(SystemFault) {
        var json = JSONWriter()
        json.beginObject()
        json.field("url", url)
        json.field("fetched_at", Int(now.seconds))
        json.key("jwks")
        json.verbatim(document.rawBytes)
        json.endObject()
        let bytes = json.finish()
        try FileBytes.makeDirectory(folder, mode: 0o700)
        try FileBytes.write(bytes.readable.array, to: path(name), mode: 0o600)
    }

    private func read(_ name: String) -> [UInt8]? {
        do {
            return try FileBytes.read(path(name), limit: JWKSFetcher.largestBody * 2)
        } catch {
            return nil
        }
    }

    private static func keys(_ document: [UInt8]) -> KeySet? {
        do {
            return try KeySet(jwks: document.rawBytes)
        } catch {
            return nil
        }
    }

    /// Parses the file.
    private static func parse(_ bytes: [UInt8]) -> (url: String, fetchedAt: Int64, jwks: [UInt8])? {
        do {
            return try members(bytes.rawBytes)
        } catch {
            return nil
        }
    }

    private static func members(_ bytes: RawSpan) throws(JSONFault) -> (String, Int64, [UInt8])? {
        var reader = JSONReader(bytes)
        var url: String?
        var fetchedAt: Int64?
        var jwks: [UInt8]?
        guard case .beginObject = try reader.next() else { return nil }
        while case .key(let key) = try reader.next() {
            if reader.text(key, equals: "url"), case .string(let text) = try reader.next() {
                url = reader.string(text)
            } else if reader.text(key, equals: "fetched_at"), case .number(let slice) = try reader.next() {
                fetchedAt = reader.integer(slice)
            } else if reader.text(key, equals: "jwks") {
                let start = reader.offset
                try reader.skipValue()
                jwks = bytes.extracting(start..<reader.offset).array
            } else {
                return nil
            }
        }
        guard let url, let fetchedAt, let jwks, fetchedAt > 0, fetchedAt < 1 << 40 else { return nil }
        return (url, fetchedAt, jwks)
    }
}
