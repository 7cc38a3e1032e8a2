@testable import HTTP
import Testing
import Wire

/// The client's machine and the server's talk to each other: content arrives whole however bytes are cut and windows move.
@Suite struct HTTP2BothEndsTests {
    @Test("Random requests and answers, cut at random places, under windows that grow and shrink", arguments: 0..<40)
    func talk(seed: UInt64) {
        var talk = BothEnds(seed: seed)
        for _ in 0..<200_000 where !talk.isOver { talk.step() }
        let isOver = talk.isOver
        #expect(isOver)
        #expect(talk.faults == [])
        #expect(talk.completed + talk.cancelled == BothEnds.requests)
        #expect(talk.completed > BothEnds.requests / 2)
    }
}

/// Two machines, the bytes between them, and the messages that they carry.
private struct BothEnds: ~Copyable {
    static let requests = 40
    private static let noise: [UInt8] = {
        var random = SplitMix64(seed: 1)
        return (0..<150_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }()

    /// A message as one end has sent it, or the other has received it.
    struct Message: Equatable {
        var content: [UInt8] = []
        var hasTrailers = false
    }

    /// One end's knowledge of a stream.
    struct End {
        var sending = Message()
        var sent = 0
        var hasHead = false
        var isSent = false
        var received = Message()
        var isReceived = false
        var unpaid = 0
    }

    var random: SplitMix64
    var client = HTTP2Core.client()
    var server = HTTP2Core.server()
    var clientOut = ByteBuffer()
    var clientIn = ByteBuffer()
    var serverOut = ByteBuffer()
    var serverIn = ByteBuffer()
    var section = FieldSection()
    var request = RequestHead()
    var answer = ResponseHead()
    var clients: [UInt32: End] = [:]
    var servers: [UInt32: End] = [:]
    /// Messages as sent, for the other end to compare.
    var requested: [UInt32: Message] = [:]
    var answered: [UInt32: Message] = [:]
    var opened = 0
    var completed = 0
    var cancelled = 0
    var faults: [String] = []
    var now = MonotonicTime(nanoseconds: 1)

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        client.start(into: &clientOut)
        // Lower than the receiver keeps: it never sees more than it allows.
        clientOut.append(HTTP2Bytes.settings([(4, 40_000)]).rawBytes)
    }

    var isOver: Bool { !faults.isEmpty || completed + cancelled == Self.requests && servers.isEmpty }

    private mutating func below(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
    private mutating func one(in bound: Int) -> Bool { below(bound) == 0 }

    private mutating func message() -> Message {
        let count = one(in: 4) ? 0 : one(in: 4) ? below(140_000) : below(3_000)
        return Message(content: Array(Self.noise[below(9_000)...].prefix(count)), hasTrailers: one(in: 3))
    }

    mutating func step() {
        now = now.advanced(milliseconds: 1)
        switch below(6) {
        case 0: open()
        case 1: sendRequests()
        case 2: sendAnswers()
        case 3: moveToServer()
        case 4: moveToClient()
        default: pay()
        }
        if client.sending.window < 0 || server.sending.window < 0 { faults.append("a negative window") }
    }

    private mutating func open() {
        guard opened < Self.requests, client.streamCount < 12 else { return }
        let message = message()
        let isEmpty = message == Message()
        let head = isEmpty ? "GET /\(opened) HTTP/1.1\r\nHost: a\r\n\r\n" : "POST /\(opened) HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"
        let sent = client.sendRequest(Array(head.utf8).rawBytes, isSecure: true, endsStream: isEmpty, owner: 0, into: &clientOut)
        guard let number = sent?.stream.number else { return }
        opened += 1
        requested[number] = message
        clients[number] = End(sending: message, isSent: isEmpty)
    }

    private mutating func sendRequests() {
        for number in clients.keys.sorted() {
            guard var end = clients[number], !end.isSent else { continue }
            let id = StreamID(number: number)
            let part = end.sending.content.dropFirst(end.sent).prefix(below(30_000))
            let isLast = end.sent + part.count == end.sending.content.count
            end.sent += client.sendContent(Array(part).rawBytes, isLast: isLast && !end.sending.hasTrailers, on: id, into: &clientOut)
            if end.sent == end.sending.content.count {
                end.isSent = true
                let trailers = Array("X-Sum: \(number)\r\n".utf8)
                if end.sending.hasTrailers {
                    client.sendTrailers(trailers.rawBytes, on: id, into: &clientOut)
                } else {
                    client.sendEnd(on: id, into: &clientOut)
                }
            }
            clients[number] = end
            if one(in: 400) { cancel(number) } else { closeClient(number) }
        }
    }

    private mutating func cancel(_ number: UInt32) {
        client.release(StreamID(number: number), into: &clientOut)
        clients[number] = nil
        cancelled += 1
    }

    private mutating func closeClient(_ number: UInt32) {
        guard let end = clients[number], end.isReceived, end.isSent else { return }
        if end.received != answered[number] { faults.append("answer \(number) differs") }
        client.release(StreamID(number: number), into: &clientOut)
        clients[number] = nil
        completed += 1
    }

    private mutating func sendAnswers() {
        for number in servers.keys.sorted() {
            guard var end = servers[number], !end.isSent, end.isReceived else { continue }
            let id = StreamID(number: number)
            if !end.hasHead {
                if one(in: 2) {
                    _ = server.sendHead(("HTTP/1.1 103 \r\nLink: a\r\n\r\n" as StaticString).rawBytes, on: id, into: &serverOut)
                }
                let length = one(in: 2) ? "Content-Length: \(end.sending.content.count)\r\n" : ""
                _ = server.sendHead(Array("HTTP/1.1 200 \r\nServer: t\r\n\(length)\r\n".utf8).rawBytes, on: id, into: &serverOut)
                end.hasHead = true
            }
            let part = end.sending.content.dropFirst(end.sent).prefix(below(30_000))
            end.sent += server.sendContent(Array(part).rawBytes, isLast: false, on: id, into: &serverOut)
            if end.sent == end.sending.content.count {
                end.isSent = true
                let trailers = Array("X-Sum: \(number)\r\n".utf8)
                if end.sending.hasTrailers {
                    server.sendTrailers(trailers.rawBytes, on: id, into: &serverOut)
                } else {
                    server.sendEnd(on: id, into: &serverOut)
                }
            }
            servers[number] = end
            if end.isSent {
                server.release(id, into: &serverOut)
                servers[number] = nil
            }
        }
    }

    private mutating func moveToServer() {
        client.outputLeaves()
        let count = min(clientOut.count, 1 + below(one(in: 3) ? 20 : 40_000))
        serverIn.append(clientOut.readable.extracting(0..<count).array)
        clientOut.discard(count)
        while true {
            let event = server.next(&serverIn, &section, &request, HeadLimits(), at: now, into: &serverOut)
            switch event {
            case .needMore: return
            case .head(let id):
                let message = message()
                answered[id.number] = message
                // The head of a request without content is all of it.
                servers[id.number] = End(sending: message, isReceived: !request.framing.hasContent)
            case .content(let id, let count):
                let content = serverIn.readable.extracting(0..<count).array
                servers[id.number]?.received.content += content
                servers[id.number]?.unpaid += count
                serverIn.discard(count)
            case .trailers(let id): servers[id.number]?.received.hasTrailers = true
            case .end(let id):
                servers[id.number]?.isReceived = true
                if let end = servers[id.number], end.received != requested[id.number] { faults.append("request \(id.number) differs") }
            case .reset(let id, _):
                server.release(id, into: &serverOut)
                servers[id.number] = nil
            case .roomGrew: break
            case .unreadable, .malformed, .fault, .interim, .badAnswer, .settings, .wentAway:
                faults.append("server: \(event)")
                return
            }
        }
    }

    private mutating func moveToClient() {
        server.outputLeaves()
        let count = min(serverOut.count, 1 + below(one(in: 3) ? 20 : 40_000))
        clientIn.append(serverOut.readable.extracting(0..<count).array)
        serverOut.discard(count)
        while true {
            let event = client.next(&clientIn, &section, &answer, HeadLimits(), at: now, into: &clientOut)
            switch event {
            case .needMore: return
            case .interim: break
            case .head(let id): clients[id.number]?.hasHead = true
            case .content(let id, let count):
                let content = clientIn.readable.extracting(0..<count).array
                clients[id.number]?.received.content += content
                clients[id.number]?.unpaid += count
                clientIn.discard(count)
            case .trailers(let id): clients[id.number]?.received.hasTrailers = true
            case .end(let id):
                clients[id.number]?.isReceived = true
                closeClient(id.number)
            case .settings, .roomGrew: break
            case .reset, .badAnswer, .wentAway, .fault, .unreadable, .malformed:
                faults.append("client: \(event)")
                return
            }
        }
    }

    /// Takes content, and changes a window.
    private mutating func pay() {
        for number in clients.keys.sorted() where one(in: 2) {
            let unpaid = clients[number]!.unpaid
            client.consumed(unpaid, of: StreamID(number: number), into: &clientOut)
            clients[number]!.unpaid = 0
        }
        for number in servers.keys.sorted() where one(in: 2) {
            let unpaid = servers[number]!.unpaid
            server.consumed(unpaid, of: StreamID(number: number), into: &serverOut)
            servers[number]!.unpaid = 0
        }
        guard one(in: 500), opened > 0 else { return }
        clientOut.append(HTTP2Bytes.settings([(4, UInt32(34_000 + below(31_000)))]).rawBytes)
        if server.streamCount > 0 { serverOut.append(HTTP2Bytes.settings([(4, UInt32(34_000 + below(31_000)))]).rawBytes) }
    }
}
