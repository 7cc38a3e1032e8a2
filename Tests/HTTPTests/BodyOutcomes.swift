import HTTP
import Wire

/// A body decoder with the buffer that its driver would keep, fed in pieces.
struct BodyRun {
    private var decoder: BodyDecoder
    private var kept: [UInt8] = []
    private(set) var content: [UInt8] = []
    private(set) var trailers: [String] = []
    private(set) var end: String?

    init(_ framing: BodyFraming) {
        decoder = BodyDecoder(framing)
        feed([])
    }

    mutating func feed(_ piece: ArraySlice<UInt8>) {
        kept += piece
        while end == nil {
            let (event, consumed) = step()
            kept.removeFirst(consumed)
            if event { return }
        }
    }

    mutating func close() {
        guard end == nil else { return }
        let event = decoder.inputClosed()
        take(event)
    }

    /// Whether more is needed, and what is consumed.
    private mutating func step() -> (Bool, Int) {
        let bytes = kept
        let event = decoder.next(bytes.rawBytes)
        return take(event)
    }

    @discardableResult
    private mutating func take(_ event: BodyEvent) -> (Bool, Int) {
        switch event {
        case .data(let skip, let count):
            precondition(count > 0)
            content += kept[skip..<skip + count]
            return (false, skip + count)
        case .needMore(let consumed):
            return (true, consumed)
        case .trailers(let slice, let consumed):
            var table = FieldTable(capacity: 40)
            if let fault = parseTrailers(kept.rawBytes, slice, into: &table) {
                end = "\(fault.status) \(fault.text)"
            } else {
                trailers = Described.lines(table, kept.rawBytes)
                end = "ended"
            }
            return (false, consumed)
        case .end(let consumed):
            end = "ended"
            return (false, consumed)
        case .fault(let fault):
            end = "\(fault.status) \(fault.text)"
            return (false, 0)
        }
    }

    /// The outcome, as the case documents write it, with the rest of the bytes only after a good end.
    var described: String {
        var lines = [end ?? "incomplete"]
        if !content.isEmpty { lines.append("content \(ByteNotation.text(content))") }
        lines += trailers
        if end == "ended", !kept.isEmpty { lines.append("rest \(ByteNotation.text(kept))") }
        return lines.joined(separator: "\n")
    }
}
