import Foundation

extension Upstream {
    /// Sends something ten times a second, for a minute at most: events, or under `/download` and `/grpc` bytes and messages of gRPC.
    static func streaming() throws -> Upstream {
        try Upstream { request, connection in
            let path = request.target
            if path.hasSuffix("/page") {
                return try connection.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi")
            }
            let isGRPC = path.contains("/grpc"), isDownload = path.contains("/download"), isLines = path.contains("/lines")
            let type =
                isGRPC
                ? "application/grpc" : isDownload ? "application/octet-stream" : isLines ? "application/x-ndjson" : "text/event-stream"
            let lines = #"{"a":"public"}"# + "\n" + #"{"a":"secret","tier":"premium"}"# + "\n"
            try connection.send(
                "HTTP/1.1 200 OK\r\nContent-Type: \(type)\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in 0..<600 {
                let content = isGRPC ? "\0\0\0\0\u{4}abcd" : isDownload ? "bytes" : isLines ? lines : "id: \(number)\ndata: \(number)\n\n"
                try connection.send("\(String(content.utf8.count, radix: 16))\r\n\(content)\r\n")
                Thread.sleep(forTimeInterval: 0.1)
            }
            connection.close()
        }
    }
}

extension Gateway {
    /// A stream that has begun: its connection, behind the head of the answer.
    func stream(_ path: String, bearer: String? = nil, version: String = "1.1") throws -> Connection {
        let connection = try connect()
        connection.setTimeout(seconds: 30)
        let field = bearer.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        try connection.send("GET \(path) HTTP/\(version)\r\nHost: test\r\n\(field)\r\n")
        let head = Message(head: try connection.take(through: "\r\n\r\n"))
        guard head.status == 200 else { throw Fault("no stream: \(head)") }
        return connection
    }
}

extension Connection {
    /// Takes everything up to the last chunk, and that.
    func takeChunks() throws -> String { text(of: try take(through: "\r\n0\r\n\r\n")) }

    /// Takes what comes until so many seconds have gone by, and something after that.
    func take(forSeconds seconds: Double) throws -> String {
        let end = Date(timeIntervalSinceNow: seconds)
        var bytes: [UInt8] = []
        repeat { bytes += try takeSome() } while Date() < end
        return text(of: bytes + (try takeSome()))
    }
}
