internal import Glibc
package import System
package import Wire

/// A message in the development outbox.
package struct OutboxEntry: Sendable, Equatable {
    package enum Channel: String, Sendable, CaseIterable { case mail, sms }

    package let at: WallTime
    package let channel: Channel
    package let kind: String
    package let to: String
    /// nil for an SMS.
    package let subject: String?
    package let text: String
    package let secret: MessageSecret

    init(_ message: OutgoingMessage, at now: WallTime) {
        at = now
        kind = message.kind
        to = message.recipient
        secret = message.secret
        channel = message.channel
        switch message.body {
        case .mail(let letter):
            subject = letter.subject
            text = letter.plainText.replacing("\r\n", with: "\n")
        case .sms(let sms): (subject, text) = (nil, sms)
        }
    }
}

/// The development outbox: a file with the newest messages of channels that are not configured, one JSON object on each line, the
/// oldest first. It is replaced atomically, so readers never see half a file.
package struct Outbox: Sendable {
    static let maximumEntries = 200
    private static let maximumFileBytes = 4 << 20

    let path: String

    /// The outbox in a data folder.
    package init(dataDirectory: String) { path = dataDirectory + "/outbox.jsonl" }

    /// Reads all messages; none if there is no file. Blocks.
    package func read() throws(SystemFault) -> [OutboxEntry] {
        do throws(SystemFault) {
            return Self.decode(try FileBytes.read(path, limit: Self.maximumFileBytes))
        } catch {
            if error.errno == ENOENT || error.errno == ENOTDIR { return [] }
            throw error
        }
    }

    /// Adds a message and drops the oldest beyond `maximumEntries`. Blocks; one thread at a time.
    func add(_ entry: OutboxEntry) throws(SystemFault) {
        var entries = try read()
        entries.append(entry)
        let folder = path.lastIndex(of: "/").map { String(path[..<$0]) } ?? "."
        try FileBytes.makeDirectory(folder, mode: 0o700)
        try FileBytes.write(Self.encode(entries.suffix(Self.maximumEntries)), to: path, mode: 0o600)
    }

    static func encode(_ entries: some Sequence<OutboxEntry>) -> [UInt8] {
        var out = ByteBuffer()
        for entry in entries {
            JSONWriter.append(to: &out) { $0.entry(entry) }
            out.append("\n")
        }
        return out.readable.array
    }

    /// Parses the file; lines that are no entries are ignored.
    static func decode(_ bytes: [UInt8]) -> [OutboxEntry] {
        bytes.split(separator: UInt8(ascii: "\n")).compactMap { OutboxEntry(json: Array($0)) }
    }
}

extension JSONWriter {
    /// Writes an entry as an object.
    fileprivate mutating func entry(_ entry: OutboxEntry) {
        beginObject()
        field("at", ISO8601.text(entry.at))
        field("channel", entry.channel.rawValue)
        field("kind", entry.kind)
        field("to", entry.to)
        optional("subject", entry.subject)
        field("text", entry.text)
        switch entry.secret {
        case .code(let code): field("code", code)
        case .link(let link): field("link", link)
        case .none: break
        }
        endObject()
    }
}

extension OutboxEntry {
    /// Parses an entry; nil if a member is missing or invalid.
    fileprivate init?(json: [UInt8]) {
        let members = Self.members(json)
        guard let at = members["at"].flatMap({ ISO8601.parse($0) }), let kind = members["kind"], let to = members["to"],
            let channel = members["channel"].flatMap(Channel.init(rawValue:)), let text = members["text"]
        else { return nil }
        (self.at, self.channel, self.kind, self.to, self.text) = (at, channel, kind, to, text)
        subject = members["subject"]
        secret = members["code"].map { .code($0) } ?? members["link"].map { .link($0) } ?? .none
    }

    /// The members of a flat object of strings; empty for anything else.
    private static func members(_ json: [UInt8]) -> [String: String] {
        var reader = JSONReader(json.rawBytes, maximumDepth: 1)
        var members: [String: String] = [:]
        var name = ""
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .beginObject, .endObject: break
                case .key(let key): name = reader.string(key)
                case .string(let value): members[name] = reader.string(value)
                case .end: return members
                case .beginArray, .endArray, .number, .bool, .null: return [:]
                }
            }
        } catch {
            return [:]
        }
    }
}
