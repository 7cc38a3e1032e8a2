import Glibc
import Synchronization
import Threads
import Transport
import Wire

/// An upstream's behaviour for a request; the request's query names it.
enum Deed: Int, CaseIterable {
    case length, chunked, untilClose, slow, interim, early, silentClose, large, trailing
    case earlyClose, reset, garbage, cut, ambiguous

    /// Whether the request must get the upstream's answer.
    var isGood: Bool { rawValue < Deed.earlyClose.rawValue }
}

/// An upstream that behaves as each request asks it to.
final class ChaosUpstream: Sendable {
    let address: SocketAddress
    private let listener: Socket
    private let isStopping = Atomic<Bool>(false)
    private let threads = Mutex<[WorkerThread]>([])

    init(seed: UInt64) throws {
        listener = try Socket.listen(on: SocketAddress(parsing: "127.0.0.1:0")!)
        address = try listener.localAddress()
        let accepting = try WorkerThread(name: "upstream") { [self] in
            var random = SplitMix64(seed: seed)
            while !isStopping.load(ordering: .acquiring) {
                guard Line(listener).isReady(milliseconds: 50), case .accepted(let socket, _) = listener.accept() else { continue }
                let seed = random.next()
                let serving = try? WorkerThread(name: "upstream") {
                    var served = ChaosService(Line(socket), seed: seed)
                    try? served.run()
                    served.line.close()
                }
                if let serving { threads.withLock { $0.append(serving) } }
            }
        }
        threads.withLock { $0.append(accepting) }
    }

    /// The worker must have ended, so that its connections are closed.
    func stop() {
        isStopping.store(true, ordering: .releasing)
        while let thread = threads.withLock({ $0.popLast() }) { thread.join() }
        listener.close()
    }
}

/// One connection of a `ChaosUpstream`.
struct ChaosService {
    let line: Line
    private var random: SplitMix64
    private var input: [UInt8] = []

    init(_ line: Line, seed: UInt64) {
        self.line = line
        random = SplitMix64(seed: seed)
    }

    mutating func run() throws {
        while let head = try readHead() {
            let target = head.split(separator: " ")[1]
            let id = String(target.dropFirst(3).prefix { $0 != "?" })
            let deed = Deed(rawValue: Int(target.split(separator: "=").last ?? "") ?? 0) ?? .length
            let isHead = head.hasPrefix("HEAD ")
            if deed == .early || deed == .earlyClose {
                try answer(.length, id, isHead: isHead, content: "early")
                if deed == .earlyClose { return }
                _ = try readBody(head)
            } else {
                let content = try readBody(head)
                guard try answer(deed, id, isHead: isHead, content: "\(content)") else { return }
            }
        }
    }

    /// - Returns: whether the connection goes on.
    @discardableResult
    private mutating func answer(_ deed: Deed, _ id: String, isHead: Bool, content: String) throws -> Bool {
        let padding = deed == .large ? String(repeating: "p", count: 400_000) : ""
        let body = isHead ? "" : "\(id):\(content):\(padding)"
        let start = "HTTP/1.1 200 OK\r\nX-Id: \(id)\r\n"
        let whole = "\(start)Content-Length: \("\(id):\(content):\(padding)".utf8.count)\r\n\r\n\(body)"
        switch deed {
        case .length, .large, .early, .earlyClose: try line.send(whole)
        case .chunked: try line.send(start + "Transfer-Encoding: chunked\r\n\r\n" + (isHead ? "" : chunked(body)))
        case .untilClose:
            try line.send(start + "Connection: close\r\n\r\n" + body)
            return false
        case .slow:
            for piece in pieces(Array(whole.utf8)) {
                try line.send(piece)
                usleep(500)
            }
        case .interim: try line.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + whole)
        case .silentClose:
            try line.send(whole)
            return false
        case .trailing:
            try line.send(whole + "HTTP/1.1 200 OK\r\nX-Id: forged\r\nContent-Length: 6\r\n\r\nforged")
            return false
        case .reset:
            line.socket.resetOnClose()
            throw TestFault("reset")
        case .garbage:
            try line.send("SMTP ready\r\n\r\n")
            return false
        case .cut:
            try line.send(start + "Content-Length: 100000\r\n\r\n\(id)")
            return false
        case .ambiguous:
            try line.send(start + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
            return false
        }
        return true
    }

    private mutating func chunked(_ text: String) -> String {
        var out = ""
        for piece in pieces(Array(text.utf8)) where !piece.isEmpty {
            out += "\(String(piece.count, radix: 16));e=x\r\n\(String(decoding: piece, as: UTF8.self))\r\n"
        }
        return out + "0\r\nX-Sum: 1\r\n\r\n"
    }

    private mutating func pieces(_ bytes: [UInt8]) -> [[UInt8]] { random.pieces(bytes, most: 12) }

    // MARK: reading

    private mutating func fill() throws -> Bool {
        guard let more = try line.receive() else { return false }
        input += more
        return true
    }

    private mutating func readHead() throws -> String? {
        while true {
            let text = String(decoding: input, as: UTF8.self)
            if let end = text.firstRange(of: "\r\n\r\n") {
                let head = String(text[..<end.upperBound])
                input.removeFirst(head.utf8.count)
                return head
            }
            guard try fill() else { return nil }
        }
    }

    /// How many bytes of content the request has.
    private mutating func readBody(_ head: String) throws -> Int {
        if head.value(of: "Transfer-Encoding") != nil { return try readChunks() }
        let length = head.contentLength
        try take(length)
        return length
    }

    private mutating func take(_ count: Int) throws {
        while input.count < count { guard try fill() else { throw TestFault("ended") } }
        input.removeFirst(count)
    }

    private mutating func readLine() throws -> String {
        while true {
            if let end = input.firstIndex(of: 10) {
                let text = String(decoding: input[..<end], as: UTF8.self)
                input.removeFirst(end + 1)
                return String(text.dropLast())
            }
            guard try fill() else { throw TestFault("ended") }
        }
    }

    private mutating func readChunks() throws -> Int {
        var total = 0
        while true {
            guard let size = Int(try readLine(), radix: 16) else { throw TestFault("no chunk") }
            if size == 0 { break }
            try take(size + 2)
            total += size
        }
        while try !readLine().isEmpty {}
        return total
    }
}

extension SplitMix64 {
    /// `bytes` cut at random into at most so many pieces.
    mutating func pieces(_ bytes: [UInt8], most: Int) -> [[UInt8]] {
        var cuts = (0..<Int.random(in: 0..<most, using: &self)).map { _ in Int.random(in: 0...bytes.count, using: &self) }
        cuts.sort()
        var out: [[UInt8]] = []
        var start = 0
        for cut in cuts + [bytes.count] {
            out.append(Array(bytes[start..<cut]))
            start = cut
        }
        return out
    }
}
