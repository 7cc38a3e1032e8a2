import Wire

/// A pseudo-field of RFC 9113 §8.3, or `:protocol` of RFC 8441 §4.
package enum PseudoField: UInt8, Sendable, CaseIterable {
    case method, scheme, authority, path, status, tunnelProtocol

    fileprivate var bit: UInt8 { 1 &<< rawValue }
}

/// The pseudo-fields of one section: checked values, from which the first line of an HTTP/1.1 head is written.
struct PseudoFields: ~Copyable {
    private let pin = AddressPin()
    private var values = ByteBuffer()
    private var slices = InlineArray<6, Slice>(repeating: Slice())
    private var present: UInt8 = 0

    mutating func removeAll() {
        values.removeAll()
        slices = InlineArray(repeating: Slice())
        present = 0
    }

    func contains(_ name: PseudoField) -> Bool { present & name.bit != 0 }

    /// The value of a pseudo-field; empty if there is none.
    subscript(_ name: PseudoField) -> RawSpan {
        @_lifetime(borrow self) get { values.readable[slices[Int(name.rawValue)]] }
    }

    /// Adds a pseudo-field of a `kind` of section; answers its fault. `isValid`: the value is known to have none.
    mutating func add(_ name: PseudoField, _ value: RawSpan, isValid: Bool, _ kind: FieldSectionKind) -> FieldSectionFault? {
        guard kind.has(name) else { return .unknownPseudoField }
        guard !contains(name) else { return .repeatedPseudoField }
        if !isValid, let fault = name.fault(of: value) { return fault }
        present |= name.bit
        slices[Int(name.rawValue)] = Slice(from: values.count, to: values.count &+ value.byteCount)
        values.append(value)
        return nil
    }

    /// Compares the length first, which nearly all other methods do not share.
    private var isConnect: Bool { slices[Int(PseudoField.method.rawValue)].count == 7 && self[.method].equals("CONNECT") }

    /// Whether there is a `:protocol` without CONNECT (RFC 8441 §4).
    var hasMisplacedProtocol: Bool { contains(.tunnelProtocol) && !isConnect }

    /// Whether all that such a section needs are there (RFC 9113 §8.3.1, §8.3.2; for CONNECT §8.5 and RFC 8441 §4).
    func areComplete(_ kind: FieldSectionKind) -> Bool {
        let target = PseudoField.scheme.bit | PseudoField.path.bit
        switch kind {
        case .request where contains(.tunnelProtocol):
            return present == PseudoField.method.bit | PseudoField.authority.bit | PseudoField.tunnelProtocol.bit | target
        case .request where isConnect: return present == PseudoField.method.bit | PseudoField.authority.bit
        case .request: return present | PseudoField.authority.bit == PseudoField.method.bit | PseudoField.authority.bit | target
        case .response: return contains(.status)
        case .trailers: return true
        }
    }

    /// Whether the request is the handshake of a WebSocket.
    var isWebSocket: Bool { contains(.tunnelProtocol) && self[.tunnelProtocol].equalsIgnoringCase("websocket") }

    /// Appends the status line.
    func writeStatusLine(into lines: inout ByteBuffer) {
        lines.append("HTTP/1.1 " as StaticString)
        lines.append(self[.status])
        lines.append(" \r\n" as StaticString)
    }

    /// Appends the request line. The pseudo-fields must be complete.
    func writeRequestLine(into lines: inout ByteBuffer) -> RequestLineSlices {
        let isWebSocket = isWebSocket
        var slices = RequestLineSlices()
        if isWebSocket { lines.append("GET" as StaticString) } else { lines.append(self[.method]) }
        slices.method = Slice(from: 0, to: lines.count)
        lines.append(UInt8(ascii: " "))
        // A CONNECT, also for another protocol, has the form that the parser does not serve.
        lines.append(contains(.path) && (isWebSocket || !isConnect) ? self[.path] : self[.authority])
        slices.target = Slice(from: slices.method.end &+ 1, to: lines.count)
        lines.append(" HTTP/1.1\r\n" as StaticString)
        return slices
    }
}

/// The parts of a request line.
struct RequestLineSlices {
    /// A token.
    var method = Slice()
    /// Of bytes that may stand in a target.
    var target = Slice()
}

extension FieldRole {
    /// Whether such a field may have this value.
    @inline(__always)
    func allows(_ value: RawSpan) -> Bool { value.isFieldValue && pseudoField?.fault(of: value) == nil }
}

extension PseudoField {
    /// The fault of a value, so that it cannot reach beyond its place in the first line or in `host`.
    fileprivate func fault(of value: RawSpan) -> FieldSectionFault? {
        let count = value.byteCount
        switch self {
        case .method, .tunnelProtocol:
            return count > 0 && ByteClass.areTokens(value, 0..<count) ? nil : .method
        case .scheme:
            return value.equalsIgnoringCase("https") || value.equalsIgnoringCase("http") ? nil : .scheme
        case .authority:
            return value.firstOutsideTarget(from: 0) == count ? nil : .authority
        case .path:
            guard count > 0, value[0] == UInt8(ascii: "/") || value.equals("*") else { return .path }
            return value.firstOutsideTarget(from: 0) == count ? nil : .path
        case .status:
            let isNumber = count == 3 && value[0].isASCIIDigit && value[1].isASCIIDigit && value[2].isASCIIDigit
            return isNumber ? nil : .status
        }
    }
}

extension FieldSectionKind {
    /// Whether the pseudo-field belongs in such a section.
    fileprivate func has(_ name: PseudoField) -> Bool {
        switch self {
        case .request: name != .status
        case .response: name == .status
        case .trailers: false
        }
    }
}
