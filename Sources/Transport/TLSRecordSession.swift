import COpenSSL
import Glibc
import Wire

/// A TLS 1.3 connection after its handshake (RFC 8446 §5, §4.6.3, §6): records, alerts and key updates, with OpenSSL's
/// ciphers and without its session, which would be thirteen KiB for as long as the connection is open.
@safe
struct TLSRecordSession: ~Copyable {
    let socket: Socket
    /// The application protocol, and whether the session is one of before.
    let alpn: String?
    let wasResumed: Bool
    private var readKeys: TLSTrafficKeys
    private var writeKeys: TLSTrafficKeys
    /// Received and not yet opened: the beginning of a record, or what `limit` held back.
    private var incoming: ByteBuffer
    /// Opened and not yet asked for.
    private var opened = ByteBuffer()
    /// Sealed and not yet taken by the system.
    private var outgoing: ByteBuffer
    /// Bytes of the caller's that `outgoing` stands for: the caller still offers them.
    private var owed = 0
    /// An end that came behind bytes, or that repeats.
    private var end: IOOutcome?
    /// Our keys change before the next data: the peer has asked for it, or they have served long enough.
    private var mustUpdateKeys = false
    /// Records in a row that brought no data.
    private var idleRecords = 0
    /// The alert that ended the session, and whether it was the peer's.
    private var alert: (number: UInt8, isPeers: Bool)?

    /// Takes over where the handshake has left the connection: with what it received beyond its end, and what it could
    /// not send yet.
    init(
        _ socket: Socket, reading readKeys: consuming TLSTrafficKeys, writing writeKeys: consuming TLSTrafficKeys,
        incoming: consuming ByteBuffer, outgoing: consuming ByteBuffer, alpn: String?, wasResumed: Bool
    ) {
        self.alpn = alpn
        self.wasResumed = wasResumed
        self.socket = socket
        self.readKeys = readKeys
        self.writeKeys = writeKeys
        self.incoming = incoming
        self.outgoing = outgoing
    }

    /// Whether `receive` has something to give without anything new from the peer.
    var hasPending: Bool {
        if end != nil || !opened.isEmpty { return true }
        guard let length = TLSRecord.length(incoming.readable, 0) else { return false }
        return length <= incoming.count
    }

    var wantsWrite: Bool { !outgoing.isEmpty }

    var faultText: String? {
        guard let alert else { return nil }
        return (alert.isPeers ? "the peer's alert: " : "") + TLSAlert.text(alert.number)
    }

    /// Sends what waits; true when nothing is left.
    mutating func flush() -> IOOutcome? {
        guard !outgoing.isEmpty else { return nil }
        switch socket.send(outgoing.readable) {
        case .done(let count): outgoing.discard(count)
        case .wouldBlock, .closed: return .wouldBlock
        case .failed(let number): return .failed(number)
        }
        guard outgoing.isEmpty else { return .wouldBlock }
        outgoing = ByteBuffer()
        return nil
    }
}

// MARK: Receiving

extension TLSRecordSession {
    mutating func receive(
        into buffer: inout ByteBuffer, upTo limit: Int, using workspace: inout TLSWorkspace
    ) -> IOOutcome {
        _ = flush()
        if !opened.isEmpty { return giveOpened(&buffer, limit) }
        if let end { return end }
        guard limit > 0 else { return .done(0) }
        var arrived = exchange(&workspace.incoming, with: ByteBuffer())
        let outcome = receive(into: &buffer, upTo: limit, &arrived, &workspace)
        arrived.removeAll()
        workspace.incoming = arrived
        return outcome
    }

    private mutating func receive(
        into buffer: inout ByteBuffer, upTo limit: Int, _ arrived: inout ByteBuffer, _ workspace: inout TLSWorkspace
    ) -> IOOutcome {
        arrived.append(incoming.readable)
        if !hasPending {
            switch fill(&arrived, limit) {
            case .done: break
            case .wouldBlock: return .wouldBlock
            case .closed: return stop(ECONNRESET)  // without a close-notify: it may have been cut
            case .failed(let number): return stop(number)
            }
        }
        let start = buffer.count
        let taken = open(arrived.readable, &workspace, &buffer, limit)
        incoming = ByteBuffer()
        if end == nil { incoming.append(arrived.readable.dropping(taken)) }
        return buffer.count > start ? .done(buffer.count - start) : end ?? .wouldBlock
    }

    /// Receives once: what `limit` bytes of content need at most, and always enough for one record.
    private func fill(_ bytes: inout ByteBuffer, _ limit: Int) -> IOOutcome {
        let records = min(limit, 4 * TLSRecord.contentLimit) / TLSRecord.contentLimit + 1
        let room = records * (TLSRecord.headerLength + TLSRecord.lengthLimit) - bytes.count
        return socket.receive(into: &bytes, upTo: max(1, room))
    }

    private mutating func stop(_ number: Int32) -> IOOutcome {
        end = .failed(number)
        return .failed(number)
    }

    /// Opens whole records until `limit` is reached or something ends it; answers how many bytes they were.
    private mutating func open(
        _ bytes: RawSpan, _ workspace: inout TLSWorkspace, _ buffer: inout ByteBuffer, _ limit: Int
    ) -> Int {
        let start = buffer.count
        var offset = 0
        while end == nil, buffer.count - start < limit, let length = TLSRecord.length(bytes, offset) {
            if let alert = refusal(bytes, offset, length) {
                giveUp(alert, &workspace)
                break
            }
            guard length <= bytes.byteCount - offset else { break }
            let record = bytes.extracting(offset..<offset + length)
            let alert = openRecord(record, &workspace.ciphers, &buffer, limit - (buffer.count - start))
            offset += length
            if let alert { giveUp(alert, &workspace) }
        }
        return offset
    }

    /// What is wrong with a record's header, if anything.
    private func refusal(_ bytes: RawSpan, _ offset: Int, _ length: Int) -> TLSAlert? {
        if bytes[offset] != TLSContentType.data.rawValue { return .unexpectedMessage }
        if length - TLSRecord.headerLength > TLSRecord.lengthLimit { return .recordOverflow }
        return length - TLSRecord.headerLength <= TLSRecord.tagLength ? .badRecord : nil
    }

    /// Opens a record into `buffer`; what is more than `room` waits.
    private mutating func openRecord(
        _ record: RawSpan, _ ciphers: inout TLSCiphers, _ buffer: inout ByteBuffer, _ room: Int
    ) -> TLSAlert? {
        // Its type comes out behind the content, and leaves again.
        if record.byteCount - TLSRecord.headerLength - TLSRecord.tagLength <= room + 1 {
            return openRecord(record, &ciphers, &buffer)
        }
        var aside = ByteBuffer()
        let alert = openRecord(record, &ciphers, &aside)
        let count = min(room, aside.count)
        buffer.append(aside.readable.extracting(first: count))
        aside.discard(count)
        if !aside.isEmpty { opened = aside }
        return alert
    }

    private mutating func giveOpened(_ buffer: inout ByteBuffer, _ limit: Int) -> IOOutcome {
        let count = min(limit, opened.count)
        buffer.append(opened.readable.extracting(first: count))
        opened.discard(count)
        if opened.isEmpty { opened = ByteBuffer() }
        return .done(count)
    }

    /// Appends a record's content to `buffer` if it is data, else acts on it.
    private mutating func openRecord(
        _ record: RawSpan, _ ciphers: inout TLSCiphers, _ buffer: inout ByteBuffer
    ) -> TLSAlert? {
        let start = buffer.count
        guard ciphers.open(record, &readKeys, into: &buffer) else { return .badRecord }
        // Behind the content its type, and zeros.
        var last = buffer.count - 1
        while last >= start, buffer.readable[last] == 0 { last -= 1 }
        guard last >= start else { return .unexpectedMessage }
        guard buffer.count - start <= TLSRecord.contentLimit + 1 else { return .recordOverflow }
        let type = TLSContentType(rawValue: buffer.readable[last])
        let content = Slice(start: start, count: last - start)
        if type == .data {
            buffer.truncate(to: last)
            return note(isData: last > start)
        }
        let alert = type.map { act($0, buffer.readable[content]) } ?? .unexpectedMessage
        buffer.truncate(to: start)
        return alert ?? note(isData: false)
    }

    private mutating func note(isData: Bool) -> TLSAlert? {
        idleRecords = isData ? 0 : idleRecords + 1
        return idleRecords > 32 ? .unexpectedMessage : nil
    }

    private mutating func act(_ type: TLSContentType, _ content: RawSpan) -> TLSAlert? {
        switch type {
        case .data: nil
        case .alert: heed(content)
        case .handshake: update(content)
        }
    }

    private mutating func heed(_ content: RawSpan) -> TLSAlert? {
        guard content.byteCount == 2 else { return .decodeError }
        let number = content[1]
        if number == TLSAlert.userCanceled.rawValue { return nil }
        if number == TLSAlert.closeNotify.rawValue {
            end = .closed
        } else {
            alert = (number, true)
            end = .failed(EPROTO)
        }
        return nil
    }

    /// A client sends no handshake message now but the key update (RFC 8446 §4.6.3), which is alone in its record.
    private mutating func update(_ content: RawSpan) -> TLSAlert? {
        guard !content.isEmpty, content[0] == 24 else { return .unexpectedMessage }
        guard content.byteCount == 5, content[1] == 0, content[2] == 0, content[3] == 1 else { return .decodeError }
        guard content[4] <= 1 else { return .illegalParameter }
        readKeys.update()
        if content[4] == 1 { mustUpdateKeys = true }
        return nil
    }

    /// Ends the session, and tells the peer why if that can go at once.
    private mutating func giveUp(_ alert: TLSAlert, _ workspace: inout TLSWorkspace) {
        self.alert = (alert.rawValue, false)
        end = .failed(EPROTO)
        send(alert, fatal: true, &workspace)
    }

    private mutating func send(_ alert: TLSAlert, fatal: Bool, _ workspace: inout TLSWorkspace) {
        let content = [fatal ? 2 : 1, alert.rawValue]
        if workspace.ciphers.seal(.alert, content.rawBytes, RawSpan(), &writeKeys, into: &outgoing) { _ = flush() }
    }
}

// MARK: Sending

extension TLSRecordSession {
    mutating func send(
        _ first: RawSpan, _ second: RawSpan, using workspace: inout TLSWorkspace
    ) -> IOOutcome {
        if alert != nil { return .failed(EPROTO) }
        if let unsent = flush() { return unsent }
        let total = first.byteCount + second.byteCount
        if owed > 0 || total == 0 { return settle(total) }
        workspace.outgoing.removeAll()
        guard seal(first, second, &workspace) else { return .failed(EPROTO) }
        var sent = 0
        switch socket.send(workspace.outgoing.readable) {
        case .done(let count): sent = count
        case .wouldBlock, .closed: break
        case .failed(let number): return .failed(number)
        }
        owed = min(total, Self.sendLimit)
        if sent == workspace.outgoing.count { return settle(total) }
        outgoing.append(workspace.outgoing.readable.dropping(sent))
        return .wouldBlock
    }

    /// So many bytes of content are sealed at a time.
    private static var sendLimit: Int { 4 * TLSRecord.contentLimit }

    /// All that was sealed is gone: the bytes it stood for are the caller's no more.
    private mutating func settle(_ total: Int) -> IOOutcome {
        defer { owed = 0 }
        return .done(min(owed, total))
    }

    private mutating func seal(_ first: RawSpan, _ second: RawSpan, _ workspace: inout TLSWorkspace) -> Bool {
        if mustUpdateKeys || writeKeys.sequence > Self.keyLimit {
            guard updateKeys(&workspace) else { return false }
        }
        let head = first.extracting(first: Self.sendLimit)
        let tail = second.extracting(first: Self.sendLimit - head.byteCount)
        var offset = 0
        while offset < head.byteCount + tail.byteCount {
            let part = head.dropping(min(offset, head.byteCount)).extracting(first: TLSRecord.contentLimit)
            let rest = tail.dropping(max(0, offset - head.byteCount)).extracting(first: TLSRecord.contentLimit - part.byteCount)
            guard workspace.ciphers.seal(.data, part, rest, &writeKeys, into: &workspace.outgoing) else { return false }
            offset += part.byteCount + rest.byteCount
        }
        return true
    }

    /// Records under one key: far below what AES-GCM bears (RFC 8446 §5.5).
    private static var keyLimit: UInt64 { 1 << 23 }

    private mutating func updateKeys(_ workspace: inout TLSWorkspace) -> Bool {
        let message: [UInt8] = [24, 0, 0, 1, 0]
        guard workspace.ciphers.seal(.handshake, message.rawBytes, RawSpan(), &writeKeys, into: &workspace.outgoing) else {
            return false
        }
        writeKeys.update()
        mustUpdateKeys = false
        return true
    }

    mutating func closeNotify(using workspace: inout TLSWorkspace) {
        guard alert == nil else { return }
        send(.closeNotify, fatal: false, &workspace)
    }
}
