import Foundation
import TestThreads
import Testing

/// Large bodies are carried, not kept.
@Suite(.ownThread) struct StreamingTests {
    private static let mebibyte = 1 << 20

    /// Bytes that tell where they belong: no piece can be lost, doubled or swapped unseen.
    static func pattern(_ count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        bytes.withUnsafeMutableBytes { bytes in
            // The n-th eight bytes say n.
            for number in 0..<count / 8 { bytes.storeBytes(of: UInt64(number), toByteOffset: number * 8, as: UInt64.self) }
        }
        return bytes
    }

    @Test(arguments: [1, 50], [false, true])
    func largeBodiesArriveWhole(_ mebibytes: Int, _ isChunked: Bool) throws {
        let content = Self.pattern(mebibytes * Self.mebibyte + 3)
        let upstream = try Upstream { request, connection in
            let isWhole = isSame(request.body, content)
            if isChunked {
                try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Whole: \(isWhole)\r\n\r\n")
                try connection.send(inChunks: content)
            } else {
                try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\nX-Whole: \(isWhole)\r\n\r\n")
                try connection.send(content)
            }
        }
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let port = gateway.port
        let client = Background {
            let connection = try Connection(port: port)
            if isChunked {
                try connection.send(requestHead("POST /x", ["Transfer-Encoding: chunked"]))
                try connection.send(inChunks: content)
            } else {
                try connection.send(requestHead("POST /x", length: content.count))
                try connection.send(content)
            }
            return try connection.answer()
        }
        let answer = try client.value(seconds: 240)
        #expect(answer["X-Whole"] == "true")
        #expect(isSame(answer.body, content))
        #expect(try gateway.peakResidentKiB < 40 * 1_024)
    }

    @Test func aSlowReaderCostsNoMemory() throws {
        let content = Self.pattern(50 * Self.mebibyte)
        let progress = Watched(0)
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\n\r\n")
            var sent = 0
            while sent < content.count {
                let piece = min(65_536, content.count - sent)
                try connection.send(Array(content[sent..<sent + piece]))
                sent += piece
                let now = sent
                progress.change { $0 = now }
            }
        }
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect(receiveBuffer: 16_384)
        try gateway.ask("GET /warm")
        let before = try gateway.residentKiB
        try connection.send(requestHead("GET /x"))
        _ = try connection.take(10_000)
        // The upstream gets stuck when every buffer on the way is full.
        var last = -1
        try eventually("the upstream is held back") {
            usleep(200_000)
            let now = progress.now
            defer { last = now }
            return now == last
        }
        #expect(progress.now < content.count)
        #expect(try gateway.residentKiB - before < 4 * 1_024)
        let message = try connection.takeAnswerRest(content.count, taken: 10_000)
        #expect(message)
        #expect(try gateway.residentKiB - before < 4 * 1_024)
    }

    @Test func aSlowUpstreamCostsNoMemory() throws {
        let content = Self.pattern(50 * Self.mebibyte)
        let go = Watched(false)
        let upstream = try Upstream.raw({ connection, _ in
            var request = Message(head: try connection.take(through: "\r\n\r\n"))
            try go.wait(for: "the word to go on", until: { $0 })
            try connection.takeBody(of: &request)
            try connection.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\(isSame(request.body, content) ? "same" : "diff")")
        })
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let before = try gateway.residentKiB
        let port = gateway.port
        let sent = Watched(0)
        let client = Background {
            let connection = try Connection(port: port)
            try connection.send(requestHead("POST /x", length: content.count))
            var count = 0
            while count < content.count {
                let piece = min(65_536, content.count - count)
                try connection.send(Array(content[count..<count + piece]))
                count += piece
                let now = count
                sent.change { $0 = now }
            }
            return try connection.answer().text
        }
        var last = -1
        try eventually("the client is held back") {
            usleep(200_000)
            let now = sent.now
            defer { last = now }
            return now > 0 && now == last
        }
        #expect(sent.now < content.count)
        #expect(try gateway.residentKiB - before < 4 * 1_024)
        go.change { $0 = true }
        #expect(try client.value() == "same")
    }

    @Test func anAnswerFlowsBeforeItsRequestHasEnded() throws {
        let upstream = try Upstream.raw({ connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in 0..<3 {
                let byte = try connection.take(1)
                try connection.send("1\r\n" + text(of: byte) + "\r\n")
            }
            try connection.send("0\r\n\r\n")
        })
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        try connection.send(requestHead("POST /x", length: 3))
        for (number, letter) in ["a", "b", "c"].enumerated() {
            try connection.send(letter)
            if number == 0 { _ = try connection.take(through: "\r\n\r\n") }
            #expect(text(of: try connection.take(through: letter + "\r\n")) == "1\r\n\(letter)\r\n")
        }
        #expect(text(of: try connection.take(through: "\r\n\r\n")) == "0\r\n\r\n")
    }

    @Test func eachPartOfAnAnswerReachesTheClientAtOnce() throws {
        let seen = Watched(0)
        let upstream = try Upstream { (_: Message, connection) in
            try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in 1...5 {
                try connection.send("8\r\ndata: \(number)\n\r\n")
                try seen.wait(for: "event \(number) at the client", until: { $0 == number })
            }
            try connection.send("0\r\n\r\n")
        }
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /events"))
        for number in 1...5 {
            _ = try connection.take(through: "data: \(number)\n\r\n")
            seen.change { $0 = number }
        }
        _ = try connection.take(through: "0\r\n\r\n")
    }

    @Test(arguments: [false, true])
    func aClientThatLeavesEndsItsRequest(_ resets: Bool) throws {
        let ended = Watched(false)
        let upstream = try Upstream.raw({ connection, _ in
            _ = try connection.take(through: "\r\n\r\n")
            try connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
            if resets {
                _ = connection.takeRest()
            } else {
                // An end alone may mean that the client has said all it has to say: it shows when the answer goes on.
                do { while true { try connection.send("1\r\nb\r\n"); usleep(10_000) } } catch {}
            }
            ended.change { $0 = true }
        })
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /x"))
        _ = try connection.take(through: "1\r\na\r\n")
        if resets { connection.reset() } else { connection.close() }
        try ended.wait(for: "the end at the upstream", until: { $0 })
        #expect(try gateway.accessLog(1)[0]["status"].int == 200)
        #expect(try gateway.metric("tollgate_http_requests_in_flight") == 0)
    }

    @Test func aClientThatHasSaidAllGetsItsAnswer() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(ForwardingTests.settings(upstream))
        let connection = try gateway.connect()
        try connection.send(requestHead("GET /a") + requestHead("GET /b"))
        connection.finishSending()
        #expect(try connection.answer().text == "ok")
        #expect(try connection.answer().text == "ok")
        try connection.expectEnd()
    }
}

extension Connection {
    func send(inChunks content: [UInt8]) throws {
        var at = 0
        var size = 1
        while at < content.count {
            let piece = min(size, content.count - at)
            try send(Array("\(String(piece, radix: 16))\r\n".utf8) + content[at..<at + piece] + [13, 10])
            at += piece
            size = size < 300_000 ? size * 3 + 1 : 1_000
        }
        try send("0\r\n\r\n")
    }

    /// Reads on through an answer of which `taken` bytes, head included, were taken; whether it ends where it should.
    func takeAnswerRest(_ length: Int, taken: Int) throws -> Bool {
        var left = length
        // The head's size is known when all has come: nothing may follow.
        left -= taken
        while left > 0 {
            let piece = min(left, 1 << 20)
            _ = try take(piece)
            left -= piece
        }
        return true
    }
}
