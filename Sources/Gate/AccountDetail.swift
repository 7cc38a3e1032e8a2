import HTTP
import Wire

/// The attributes and merges of an account, as the routes of a policy want them. Made when they are learned, so that a request reads no
/// JSON.
struct AccountDetail: Sendable {
    /// The most merges that one request announces; the others follow once these are done.
    static let maxAnnounced = 16

    /// Another one for everything that is learned.
    let serial: UInt64
    let account: UUID
    /// The requirements of the table that the attributes meet.
    private(set) var held: UInt64 = 0
    let merges: [AnnouncedMerge]
    /// The lines of the forwarded attributes and their JSON values, and where each is, by its place in the table; empty for one that the
    /// account does not have.
    private var text: [UInt8] = []
    private var lines: [Slice]
    private var values: [Slice]

    /// The bytes that it takes, about.
    var size: Int { 256 + text.count + 16 * (lines.count + merges.count * 2) }

    init(_ marks: AccountMarks, of account: UUID, _ table: AttributeTable, serial: UInt64) {
        self.serial = serial
        self.account = account
        // `map`, because all workers would share the buffer of an array.
        merges = table.announcesMerges ? marks.merges.map { $0 } : []
        lines = Array(repeating: Slice(), count: table.forwarded.count)
        values = lines
        read(marks.attributes.rawBytes, table)
    }

    /// Reads the object; one that is malformed, as only a row written by hand can be, has no attributes.
    private mutating func read(_ json: RawSpan, _ table: AttributeTable) {
        var reader = JSONReader(json)
        var name = ByteBuffer()
        do throws(JSONFault) {
            guard !json.isEmpty, try reader.next() == .beginObject else { return }
            while case .key(let key) = try reader.next() {
                name.removeAll()
                reader.unescape(key, into: &name)
                let start = reader.offset
                try reader.skipValue()
                // The reader has taken the colon, and the store keeps no white space.
                let value = json.extracting(start..<reader.offset)
                for index in table.requirements.indices where table.requirements[index].name.withRawBytes({ name.readable.equals($0) }) {
                    let isMet = table.requirements[index].values.contains { wanted in wanted.withRawBytes { value.has($0) } }
                    held = isMet ? held | 1 << UInt64(index) : held & ~(1 << UInt64(index))
                }
                for index in table.forwarded.indices where table.forwarded[index].text.withRawBytes({ name.readable.equals($0) }) {
                    render(value, at: index, table.fields[index])
                }
            }
        } catch {
            held = 0
            lines = Array(repeating: Slice(), count: lines.count)
            values = lines
        }
    }

    /// A string as its text, anything else as its JSON; percent-encoded, because a header takes no other bytes without doubt.
    private mutating func render(_ value: RawSpan, at index: Int, _ field: [UInt8]) {
        var line = ByteBuffer()
        line.append(field)
        line.append(": ")
        var reader = JSONReader(value)
        do throws(JSONFault) {
            if case .string(let string) = try reader.next() {
                var plain = ByteBuffer()
                reader.unescape(string, into: &plain)
                PercentEncoding.encode(plain.readable, into: &line)
            } else {
                PercentEncoding.encode(value, into: &line)
            }
        } catch {
            return
        }
        line.append("\r\n")
        lines[index] = Slice(start: text.count, count: line.count)
        text += line.readable.array
        values[index] = Slice(start: text.count, count: value.byteCount)
        text += value.array
    }

    /// Adds the lines of those attributes, bits by their place in the table.
    func append(_ bits: UInt64, to edits: inout FieldEdits) {
        var left = bits
        while left != 0 {
            let line = lines[left.trailingZeroBitCount]
            left &= left &- 1
            if !line.isEmpty { edits.append(rendered: text.rawBytes[line]) }
        }
    }

    /// The same attributes as one JSON object; nil for none of them.
    func json(_ bits: UInt64, _ table: AttributeTable) -> [UInt8]? {
        let found = values.indices.filter { bits >> UInt64($0) & 1 != 0 && !values[$0].isEmpty }
        guard !found.isEmpty else { return nil }
        var json = JSONWriter()
        json.beginObject()
        for index in found {
            json.key(table.forwarded[index].text)
            json.verbatim(text.rawBytes[values[index]])
        }
        json.endObject()
        return json.finish().readable.array
    }

    /// Adds the merges that are announced at `now`, in seconds since 1970; returns how many.
    func appendMerges(at now: Int64, to edits: inout FieldEdits) -> UInt8 {
        var count: UInt8 = 0
        for merge in merges where now < merge.until {
            guard count < Self.maxAnnounced else { break }
            if count == 0 { edits.begin(IdentityHeader.mergedFrom.name) } else { edits.append(", " as StaticString) }
            edits.append(merge.from)
            count += 1
        }
        if count > 0 { edits.end() }
        return count
    }
}

extension RawSpan {
    /// Whether this JSON is a string, number or boolean with the text `wanted`, or an array that contains one.
    fileprivate func has(_ wanted: RawSpan) -> Bool {
        var reader = JSONReader(self)
        do throws(JSONFault) {
            while true {
                switch try reader.next() {
                case .string(let text) where reader.depth <= 1: if reader.text(text, equals: wanted) { return true }
                case .number(let slice) where reader.depth <= 1: if reader.source(slice).equals(wanted) { return true }
                case .bool(let flag) where reader.depth <= 1: if wanted.equals(flag ? "true" : "false") { return true }
                case .beginObject where reader.depth == 1: return false
                case .end: return false
                case .string, .number, .bool, .null, .key, .beginArray, .endArray, .beginObject, .endObject: continue
                }
            }
        } catch {
            return false
        }
    }
}

/// Cache of a worker: the details of recently seen accounts, bounded in bytes by two generations as `RecentTable` is in entries.
struct AccountDetails {
    private let generationBytes: Int
    private var young = KeyTable<AccountDetail>()
    private var old = KeyTable<AccountDetail>()
    private var youngBytes = 0
    private var serial: UInt64 = 0

    init(bytes: Int) { generationBytes = bytes / 2 }

    var count: Int { young.count + old.count }

    mutating func find(_ key: LimitKey) -> AccountDetail? {
        if let detail = young[key] { return detail }
        guard let detail = old[key] else { return nil }
        put(detail, key)
        return detail
    }

    mutating func learn(_ marks: AccountMarks, of account: UUID, _ table: AttributeTable, _ key: LimitKey) {
        serial &+= 1
        put(AccountDetail(marks, of: account, table, serial: serial), key)
    }

    private mutating func put(_ detail: AccountDetail, _ key: LimitKey) {
        if youngBytes + detail.size > generationBytes {
            swap(&young, &old)
            young.removeAll()
            youngBytes = 0
        }
        youngBytes += detail.size
        young.set(detail, for: key)
    }

    mutating func removeAll() {
        young.removeAll()
        old.removeAll()
        youngBytes = 0
    }
}
