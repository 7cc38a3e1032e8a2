import Wire

/// The place of an answer's content between frames, for content whose frames the gateway can tell.
package enum FrameScan: Equatable, Sendable {
    /// Content of another kind, or not readable.
    case none
    case events(EventStreamScan)
    case messages(GRPCMessageScan)

    /// The scan for content of this form behind this head, to a client that takes trailers or not. None for content of a known length,
    /// which must not end early, and for coded content.
    /// `isCodedBehind`: the coding that the head names follows behind the scan.
    package init(
        _ form: ContentForm, _ head: borrowing ResponseHead, _ bytes: RawSpan, takesTrailers: Bool, isCodedBehind: Bool = false
    ) {
        self = .none
        guard head.framing.mayEndEarly, isCodedBehind || ContentCoding(head.fields, bytes) == .identity else { return }
        switch form {
        case .events: self = .events(EventStreamScan())
        case .grpc: if takesTrailers { self = .messages(GRPCMessageScan()) }
        }
    }

    /// Content types of streams.
    package enum ContentForm: Equatable, Sendable {
        case events, grpc

        /// nil for any other, and for answers without content.
        package init?(_ head: borrowing ResponseHead, _ bytes: RawSpan) {
            guard head.framing.hasContent, 200..<300 ~= head.status, let index = head.fields.first(.contentType) else { return nil }
            let value = bytes[head.fields[index].value]
            // Most are neither, and one letter tells: the `e` or the `g` of the subtype.
            guard value.byteCount > 12 else { return nil }
            if value[5].lowercasedASCII == UInt8(ascii: "e"), value.begins(with: "text/event-stream", delimiters: ";") {
                self = .events
            } else if value[12].lowercasedASCII == UInt8(ascii: "g"), value.begins(with: "application/grpc", delimiters: ";+") {
                self = .grpc
            } else {
                return nil
            }
        }
    }

    package var isNone: Bool { self == .none }

    /// Whether the content so far ends between two frames.
    package var isInGap: Bool {
        switch self {
        case .none: false
        case .events(let scan): scan.isInGap
        case .messages(let scan): scan.isInGap
        }
    }

    package mutating func advance(over bytes: RawSpan) {
        switch self {
        case .none: break
        case .events(var scan):
            scan.advance(over: bytes)
            self = .events(scan)
        case .messages(var scan):
            scan.advance(over: bytes)
            self = .messages(scan)
        }
    }

    /// Advances to the first gap behind at least one byte; returns how many bytes lie before it, or nil if it is not in `bytes`,
    /// all of which are then consumed.
    package mutating func advanceToGap(in bytes: RawSpan) -> Int? {
        switch self {
        case .none: return nil
        case .events(var scan):
            defer { self = .events(scan) }
            return scan.advanceToGap(in: bytes)
        case .messages(var scan):
            defer { self = .messages(scan) }
            return scan.advanceToGap(in: bytes)
        }
    }
}

extension BodyFraming {
    /// Whether content that ends early can look complete.
    fileprivate var mayEndEarly: Bool {
        switch self {
        case .none, .length: false
        case .chunked, .untilClose: true
        }
    }
}

extension RawSpan {
    /// Whether it is `word`, in any case, alone or before one of `delimiters` or white space.
    fileprivate func begins(with word: StaticString, delimiters: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard byteCount >= count, extracting(0..<count).equalsIgnoringCase(word) else { return false }
        guard byteCount > count else { return true }
        let next = self[count]
        return next == UInt8(ascii: " ") || next == UInt8(ascii: "\t") || delimiters.rawBytes.firstIndex(of: next) != nil
    }
}
