package import Wire

/// The opening handshake of a client, as slices of its request (RFC 6455 §4.2.1; over HTTP/2 RFC 8441 §5).
package struct WebSocketHandshake: Equatable, Sendable {
    /// Why a handshake is refused.
    package enum Fault: Error, Equatable, Sendable {
        case malformed
        /// Another version than 13: 426.
        case version
    }

    /// Value of `Sec-WebSocket-Key`; empty over HTTP/2, which has none.
    package private(set) var key = Slice()
    /// The token of `Sec-WebSocket-Protocol: bearer, TOKEN`, empty if nothing follows; nil if the list does not begin with `bearer`.
    package private(set) var token: Slice?

    /// Whether the request asks for a WebSocket: `Upgrade` lists it. Other upgrades are ignored (RFC 9110 §7.8).
    package static func isAsked(by head: borrowing RequestHead, _ bytes: RawSpan) -> Bool {
        head.fields.upgradesToWebSocket(bytes)
    }

    /// Reads the handshake of a request that asks for a WebSocket. `readsToken`: a token among the subprotocols is for the gateway.
    ///
    /// The list of subprotocols that carries a token must begin with it: anywhere else it would reach the upstream.
    package init(_ head: borrowing RequestHead, _ bytes: RawSpan, readsToken: Bool) throws(Fault) {
        guard head.method == .get, head.minorVersion == 1, !head.framing.hasContent, head.fields.connectionNamesUpgrade else {
            throw .malformed
        }
        guard let version = head.fields.soleField(.version, bytes) else { throw .malformed }
        guard bytes[version].equals("13") else { throw .version }
        if !head.isHTTP2 {
            guard let key = head.fields.soleField(.key, bytes), WebSocketKey.isValid(bytes[key]) else { throw .malformed }
            self.key = key
        }
        var list = SubprotocolList()
        var number = 0
        while let element = list.next(head.fields, bytes) {
            guard ByteClass.areTokens(bytes[element], 0..<Int(element.count)) else { throw .malformed }
            let isBearer = readsToken && bytes[element].equals(Self.bearer)
            if number == 0, isBearer {
                token = Slice()
            } else if number == 1, token != nil {
                token = element
            } else if isBearer {
                throw .malformed
            }
            number += 1
        }
    }

    /// The subprotocol in front of a token.
    package static var bearer: StaticString { "bearer" }

    /// Whether the gateway writes this field of a handshake itself.
    package static func owns(_ name: RawSpan) -> Bool {
        name.equalsIgnoringCase(WebSocketField.key.name) || name.equalsIgnoringCase(WebSocketField.version.name)
            || name.equalsIgnoringCase(WebSocketField.subprotocol.name) || name.equalsIgnoringCase(WebSocketField.extensions.name)
    }

    /// Writes the offer to an upstream of HTTP/1.1, which `WebSocketOffer` reads again: the handshake's fields, without the token and its
    /// `bearer`, and the empty line. `key`: in place of the client's, which has none over HTTP/2.
    package func write(_ head: borrowing RequestHead, _ bytes: RawSpan, key: RawSpan, into out: inout ByteBuffer) {
        out.append("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ")
        out.append(self.key.isEmpty ? key : bytes[self.key])
        var list = SubprotocolList()
        var number = 0
        var separator: StaticString = "\r\nSec-WebSocket-Protocol: "
        while let element = list.next(head.fields, bytes) {
            number += 1
            if token != nil, number <= 2 { continue }
            out.append(separator)
            out.append(bytes[element])
            separator = ", "
        }
        separator = "\r\nSec-WebSocket-Extensions: "
        for index in 0..<head.fields.count where head.fields.isField(index, .extensions, bytes) {
            out.append(separator)
            out.append(bytes[head.fields[index].value])
            separator = ", "
        }
        out.append("\r\n\r\n")
    }
}

/// A handshake as the upstream was sent it.
package struct WebSocketOffer: ~Copyable {
    fileprivate var fields = FieldTable(capacity: 8)

    /// Reads what `WebSocketHandshake.write` wrote.
    package init(_ bytes: RawSpan) {
        do throws(HeadStop) {
            _ = try fields.read(bytes, from: 0, limit: fields.capacity)
        } catch {
            preconditionFailure("an offer that cannot be read")
        }
    }

    /// The value of `Sec-WebSocket-Accept` that it asks for (RFC 6455 §4.2.2); `sha1` hashes the bytes that it is given.
    package func accept(_ bytes: RawSpan, sha1: (RawSpan) -> [UInt8]) -> ByteBuffer {
        guard let key = fields.soleField(.key, bytes) else { preconditionFailure("an offer without a key") }
        return WebSocketKey.accept(bytes[key], sha1: sha1)
    }
}

/// An upstream's acceptance of a handshake: a 101 that was checked against the request (RFC 6455 §4.1).
package struct WebSocketAcceptance: Equatable, Sendable {
    /// Whether the frames may use reserved bits and opcodes.
    package let hasExtensions: Bool
    package let hasSubprotocol: Bool

    /// Checks the 101 to `offer`; nil if it accepts nothing, or something else than was offered. `accept`: the value that its
    /// `Sec-WebSocket-Accept` must have.
    package init?(
        _ answer: borrowing ResponseHead, _ bytes: RawSpan, to offer: borrowing WebSocketOffer, _ offerBytes: RawSpan, accept: RawSpan
    ) {
        guard answer.status == 101, answer.minorVersion == 1, answer.fields.connectionNamesUpgrade,
            answer.fields.upgradesToWebSocket(bytes), let accepted = answer.fields.soleField(.accept, bytes),
            bytes[accepted].equals(accept)
        else { return nil }
        hasSubprotocol = answer.fields.has(.subprotocol, bytes)
        if hasSubprotocol {
            guard let choice = answer.fields.soleField(.subprotocol, bytes), offer.fields.offers(bytes[choice], offerBytes)
            else { return nil }
        }
        hasExtensions = answer.fields.has(.extensions, bytes)
        guard offer.fields.offersExtensions(of: answer.fields, bytes, offerBytes) else { return nil }
    }

    /// Whether the gateway writes this field of an acceptance itself.
    package static func owns(_ name: RawSpan) -> Bool { name.equalsIgnoringCase(WebSocketField.accept.name) }
}

/// Names of the handshake's fields, in lower case.
enum WebSocketField {
    case key, version, accept, subprotocol, extensions

    var name: StaticString {
        switch self {
        case .key: "sec-websocket-key"
        case .version: "sec-websocket-version"
        case .accept: "sec-websocket-accept"
        case .subprotocol: "sec-websocket-protocol"
        case .extensions: "sec-websocket-extensions"
        }
    }
}

/// Walks the elements of all `Sec-WebSocket-Protocol` fields of a request, without empty ones.
private struct SubprotocolList {
    private var field = 0
    private var offset = 0

    mutating func next(_ fields: borrowing FieldTable, _ bytes: RawSpan) -> Slice? {
        while field < fields.count {
            let value = fields[field].value
            guard fields.isField(field, .subprotocol, bytes), offset <= value.count else {
                field += 1
                offset = 0
                continue
            }
            var start = Int(value.start) + offset
            let end = bytes.extracting(0..<value.end).firstOffset(of: UInt8(ascii: ","), from: start)
            offset = end + 1 - Int(value.start)
            var last = end
            while start < last, ByteClass.isBlank(bytes[start]) { start += 1 }
            while last > start, ByteClass.isBlank(bytes[last - 1]) { last -= 1 }
            if last > start { return Slice(from: start, to: last) }
        }
        return nil
    }
}

extension FieldTable {
    fileprivate func isField(_ index: Int, _ field: WebSocketField, _ bytes: RawSpan) -> Bool {
        self[index].known == .other && bytes[self[index].name].equalsIgnoringCase(field.name)
    }

    fileprivate func has(_ field: WebSocketField, _ bytes: RawSpan) -> Bool {
        for index in 0..<count where isField(index, field, bytes) { return true }
        return false
    }

    /// The value of a field that is there once.
    fileprivate func soleField(_ field: WebSocketField, _ bytes: RawSpan) -> Slice? {
        var found: Slice?
        for index in 0..<count where isField(index, field, bytes) {
            guard found == nil else { return nil }
            found = self[index].value
        }
        return found
    }

    /// Whether `Connection` names `Upgrade` (RFC 9110 §7.8).
    fileprivate var connectionNamesUpgrade: Bool { first(.upgrade).map { self[$0].isNominated } ?? false }

    fileprivate func upgradesToWebSocket(_ bytes: RawSpan) -> Bool {
        for index in 0..<count where self[index].known == .upgrade {
            var list = ListElements(bytes[self[index].value])
            while let element = list.next() { if element.equalsIgnoringCase("websocket") { return true } }
        }
        return false
    }

    /// Whether the subprotocol was offered. Names of subprotocols have case.
    fileprivate func offers(_ choice: RawSpan, _ bytes: RawSpan) -> Bool {
        var list = SubprotocolList()
        while let element = list.next(self, bytes) { if bytes[element].equals(choice) { return true } }
        return false
    }

    /// Whether each extension that the answer names was offered. Their parameters are between client and server.
    fileprivate func offersExtensions(of answer: borrowing FieldTable, _ answerBytes: RawSpan, _ bytes: RawSpan) -> Bool {
        for index in 0..<answer.count where answer.isField(index, .extensions, answerBytes) {
            var list = ListElements(answerBytes[answer[index].value])
            while let element = list.next() {
                if !element.isEmpty, !offersExtension(element.beforeSemicolon, bytes) { return false }
            }
        }
        return true
    }

    private func offersExtension(_ name: RawSpan, _ bytes: RawSpan) -> Bool {
        for index in 0..<count where isField(index, .extensions, bytes) {
            var list = ListElements(bytes[self[index].value])
            while let element = list.next() { if element.beforeSemicolon.equals(name) { return true } }
        }
        return false
    }
}

extension RawSpan {
    /// The name in front of parameters.
    fileprivate var beforeSemicolon: RawSpan {
        @_lifetime(copy self) get {
            var end = firstOffset(of: UInt8(ascii: ";"), from: 0)
            while end > 0, ByteClass.isBlank(self[end - 1]) { end -= 1 }
            return extracting(0..<end)
        }
    }
}
