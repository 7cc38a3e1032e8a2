import Glibc
import Transport
import Wire

/// A client that does what clients do, and worse. It tells what was wrong with the answers it got.
struct ChaosClient {
    private let address: SocketAddress
    private let name: String
    private var random: SplitMix64
    private var serial = 0
    private(set) var complaints: [String] = []
    /// Good requests that got their answer.
    private(set) var answered = 0

    private struct Asked {
        var id: String
        var method: String
        var deed: Deed
        var content: Int
        var bytes: [UInt8]
    }

    init(_ name: String, to address: SocketAddress, seed: UInt64) {
        self.name = name
        self.address = address
        random = SplitMix64(seed: seed)
    }

    /// One connection, from its beginning to its end.
    mutating func connectOnce() {
        guard let line = try? Line(to: address) else { return complaints.append("cannot connect") }
        let asked = (0..<Int.random(in: 1...4, using: &random)).map { _ in ask() }
        let bytes = asked.flatMap(\.bytes)
        switch Int.random(in: 0..<10, using: &random) {
        case 0: abandon(line, bytes, resets: true)
        case 1: abandon(line, bytes, resets: false)
        case 2:
            try? line.send((0..<200).map { _ in UInt8.random(in: 0...255, using: &random) })
            if let all = try? line.receiveAll().text, !all.isEmpty, ![400, 408].contains(all.status), all.status < 500 {
                complaints.append("garbage got \(all.prefix(30))")
            }
            line.close()
        case 3: converse(line, asked, bytes, halfCloses: true)
        default: converse(line, asked, bytes, halfCloses: false)
        }
    }

    private mutating func abandon(_ line: Line, _ bytes: [UInt8], resets: Bool) {
        _ = line.sendWhatGoes(Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &random))), waiting: 5)
        if Bool.random(using: &random) { usleep(2_000) }
        if resets { line.reset() } else { line.close() }
    }

    // MARK: asking

    private mutating func ask() -> Asked {
        serial += 1
        let id = "\(name)-\(serial)"
        let deed = Deed.allCases.randomElement(using: &random)!
        let method = ["GET", "GET", "GET", "HEAD", "POST", "PUT", "PATCH"].randomElement(using: &random)!
        let hasBody = ["POST", "PUT", "PATCH"].contains(method)
        let content = hasBody ? [0, 1, 500, 20_000, 300_000].randomElement(using: &random)! : 0
        var text = "\(method) /r/\(id)?deed=\(deed.rawValue) HTTP/1.1\r\nHost: h\r\nX-User-Id: forged\r\n"
        let body = [UInt8](repeating: UInt8(ascii: "b"), count: content)
        guard hasBody else {
            return Asked(id: id, method: method, deed: deed, content: 0, bytes: Array((text + "\r\n").utf8))
        }
        if Bool.random(using: &random) {
            text += "Content-Length: \(content)\r\n\r\n"
            return Asked(id: id, method: method, deed: deed, content: content, bytes: Array(text.utf8) + body)
        }
        text += "Transfer-Encoding: chunked\r\n\r\n"
        var bytes = Array(text.utf8)
        for piece in random.pieces(body, most: 10) where !piece.isEmpty {
            bytes += Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + [13, 10]
        }
        bytes += Array((Bool.random(using: &random) ? "0\r\nX-Tail: t\r\n\r\n" : "0\r\n\r\n").utf8)
        return Asked(id: id, method: method, deed: deed, content: content, bytes: bytes)
    }

    // MARK: talking

    private mutating func converse(_ line: Line, _ asked: [Asked], _ bytes: [UInt8], halfCloses: Bool) {
        var talk = Talk(line, bytes: bytes, pieces: random.pieces(bytes, most: 8).map(\.count), halfCloses: halfCloses)
        defer { line.close() }
        // A long unread body ends its connection, and then the requests pipelined behind it get no answer.
        var mayEnd = false
        for one in asked {
            defer { mayEnd = mayEnd || (one.deed == .early || one.deed == .earlyClose) && one.content > 60_000 }
            do {
                let answer = try talk.readAnswer(isHead: one.method == "HEAD")
                judge(answer, one)
                if answer.isLast { return }
            } catch {
                // A good request has its answer, unless a body was on its way when a connection of before had gone.
                if one.deed.isGood, !mayEnd {
                    let before = asked.prefix { $0.id != one.id }.map { "\($0.method) \($0.deed) \($0.content)" }
                    complaints.append(
                        "\(one.id) \(one.method) \(one.deed) \(one.content) \(halfCloses ? "half" : "") after \(before): \(error)")
                }
                return
            }
        }
        if !talk.input.isEmpty { complaints.append("\(name): more than was asked for") }
    }

    private mutating func judge(_ answer: Talk.Answer, _ one: Asked) {
        if answer.status == 200 {
            let wanted = "\(one.id):\(one.deed == .early || one.deed == .earlyClose ? "early" : "\(one.content)"):"
            if answer.id != one.id { complaints.append("\(one.id) got the answer of \(answer.id ?? "nobody")") }
            if one.method != "HEAD", !answer.body.hasPrefix(wanted) {
                complaints.append("\(one.id) \(one.deed) got \(answer.body.prefix(40))")
            }
            if one.deed == .large, one.method != "HEAD", answer.body.utf8.count != wanted.utf8.count + 400_000 {
                complaints.append("\(one.id) got \(answer.body.utf8.count) bytes")
            }
            answered += 1
            return
        }
        // A request that is not idempotent is not sent again when a kept connection turns out to be closed.
        let mayFail = !one.deed.isGood || one.method == "POST" || one.method == "PUT" || one.method == "PATCH"
        if !(mayFail && (answer.status == 502 || answer.status == 504)) {
            complaints.append("\(one.id) \(one.method) \(one.deed) \(one.content) got \(answer.status)")
        }
    }
}

/// A connection on which requests go out while answers come in.
struct Talk {
    struct Answer {
        var status: Int
        var id: String?
        var body: String
        var isLast: Bool
    }

    private let line: Line
    private let bytes: [UInt8]
    private var pieces: [Int]
    private var sent = 0
    private var halfCloses: Bool
    private(set) var input: [UInt8] = []
    private var hasEnded = false

    init(_ line: Line, bytes: [UInt8], pieces: [Int], halfCloses: Bool) {
        self.line = line
        self.bytes = bytes
        self.pieces = pieces.reversed()
        self.halfCloses = halfCloses
    }

    /// Sends some and receives some.
    private mutating func move() throws {
        if hasEnded { throw TestFault("ended") }
        if sent < bytes.count {
            if pieces.isEmpty { pieces = [bytes.count - sent] }
            let piece = pieces.removeLast()
            let gone = line.sendWhatGoes(Array(bytes[sent..<sent + piece]), waiting: 0)
            sent += gone
            if gone < piece { pieces.append(piece - gone) }
            if sent == bytes.count, halfCloses { line.finishSending() }
        }
        let isSending = sent < bytes.count
        guard line.isReady(milliseconds: isSending ? 1 : 30_000) else {
            if isSending { return }
            throw TestFault("no answer for 30 seconds")
        }
        guard let more = try line.receive() else {
            hasEnded = true
            return
        }
        input += more
    }

    mutating func readAnswer(isHead: Bool) throws -> Answer {
        var head = try readHead()
        while head.status < 200 { head = try readHead() }
        var body: [UInt8] = []
        if isHead || head.status == 204 {
        } else if head.value(of: "Transfer-Encoding") != nil {
            while true {
                guard let size = Int(try readLine(), radix: 16) else { throw TestFault("no chunk") }
                if size == 0 { break }
                body += try take(size).prefix(size)
                guard try readLine().isEmpty else { throw TestFault("chunk end") }
            }
            while try !readLine().isEmpty {}
        } else {
            body = try take(head.contentLength)
        }
        return Answer(
            status: head.status, id: head.value(of: "X-Id"), body: String(decoding: body, as: UTF8.self),
            isLast: head.value(of: "Connection") == "close")
    }

    private mutating func readHead() throws -> String {
        while true {
            if let end = input.indices.dropLast(3).first(where: {
                input[$0] == 13 && input[$0 + 2] == 13 && input[$0 + 1] == 10 && input[$0 + 3] == 10
            }) {
                let head = String(decoding: input[...(end + 3)], as: UTF8.self)
                input.removeFirst(end + 4)
                return head
            }
            try move()
        }
    }

    private mutating func readLine() throws -> String {
        while true {
            if let end = input.firstIndex(of: 10) {
                let text = String(decoding: input[..<end], as: UTF8.self)
                input.removeFirst(end + 1)
                return String(text.dropLast(1))
            }
            try move()
        }
    }

    private mutating func take(_ count: Int) throws -> [UInt8] {
        while input.count < count { try move() }
        let taken = Array(input.prefix(count))
        input.removeFirst(count)
        return taken
    }
}
