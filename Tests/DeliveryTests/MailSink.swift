import Foundation
import Glibc
import Synchronization

/// A mail server that others wrote (aiosmtpd), on a port of its own: it tells what it gets as Python's mail library reads
/// it. Ends with its owner.
final class MailSink: Sendable {
    enum Security: String { case none, starttls, tls }

    /// One mail as it came in.
    struct Received: Decodable, Sendable {
        let from: String
        let to: [String]
        let login: String?
        let isEncrypted: Bool
        let headers: [String: String]
        let type: String
        let parts: [Part]
        let defects: [String]
        let longestLine: Int

        struct Part: Decodable, Sendable {
            let type: String
            let text: String
        }
    }

    let port: Int
    private let process = Process()
    private let mails = Mutex<[Received]>([])

    /// `answers` are what it says to the first recipients in place of accepting them.
    init(
        _ security: Security = .none, certificate: TestCertificate? = nil, login: (user: String, password: String)? = nil,
        answers: [String] = []
    ) throws {
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [
            "-c", Self.script, security.rawValue, certificate?.chain ?? "", certificate?.key ?? "", login?.user ?? "",
            login?.password ?? "",
        ] + answers
        process.standardOutput = output
        try process.run()
        let lines = LineReader(output.fileHandleForReading)
        guard let port = lines.next().flatMap({ Int($0) }) else { throw SinkFault() }
        self.port = port
        Thread.detachNewThread { [weak self] in
            while let line = lines.next() {
                do {
                    let mail = try JSONDecoder().decode(Received.self, from: Data(line.utf8))
                    self?.mails.withLock { $0.append(mail) }
                } catch {
                    preconditionFailure("\(error): \(line)")
                }
            }
        }
    }

    deinit {
        // It has the signal mask of the thread that started it, which may hold back anything milder.
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }

    var received: [Received] { mails.withLock { $0 } }

    private struct SinkFault: Error {}

    private static let script = #"""
        import asyncio, email, email.policy, json, ssl, sys
        from aiosmtpd.smtp import SMTP, AuthResult
        security, chain, key, user, password, *answers = sys.argv[1:]

        class Handler:
            async def handle_RCPT(self, server, session, envelope, address, options):
                if answers: return answers.pop(0)
                envelope.rcpt_tos.append(address)
                return "250 OK"
            async def handle_DATA(self, server, session, envelope):
                mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
                lines = envelope.content.split(b"\r\n")
                print(json.dumps({
                    "from": envelope.mail_from, "to": envelope.rcpt_tos,
                    "login": session.auth_data.login.decode() if session.authenticated else None,
                    "isEncrypted": session.ssl is not None or security == "tls",
                    "headers": {name: str(value) for name, value in mail.items()}, "type": mail.get_content_type(),
                    "parts": [{"type": part.get_content_type(), "text": part.get_content()} for part in mail.iter_parts()],
                    "defects": [str(d) for part in mail.walk() for d in part.defects],
                    "longestLine": max(map(len, lines)) if b"\n" not in b"".join(lines) else 9999}), flush=True)
                return "250 OK"

        def authenticate(server, session, envelope, mechanism, data):
            return AuthResult(success=data.login.decode() == user and data.password.decode() == password, handled=False, auth_data=data)

        async def main():
            context = None
            if chain:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(chain, key)
            starttls = security == "starttls"
            make = lambda: SMTP(Handler(), enable_SMTPUTF8=True, tls_context=context if starttls else None, require_starttls=starttls,
                auth_required=user != "", auth_require_tls=starttls, authenticator=authenticate)
            server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0, ssl=context if security == "tls" else None)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()
        asyncio.run(main())
        """#
}

/// The lines of a stream, one after the other. Belongs to one thread at a time.
// Unchecked: made on one thread and handed to the one that reads on.
private final class LineReader: @unchecked Sendable {
    private let handle: FileHandle
    private var rest = Data()

    init(_ handle: FileHandle) { self.handle = handle }

    func next() -> String? {
        while true {
            if let end = rest.firstIndex(of: 10) {
                defer { rest = Data(rest[(end + 1)...]) }
                return String(decoding: rest[..<end], as: UTF8.self)
            }
            let more = handle.availableData
            if more.isEmpty { return nil }
            rest += more
        }
    }
}

/// A certificate for `localhost` that is its own authority, made with the openssl command.
final class TestCertificate {
    private let folder = TemporaryFolder()
    var chain: String { folder.path + "/cert.pem" }
    var key: String { folder.path + "/key.pem" }

    init() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-nodes", "-days", "30", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", chain,
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
    }
}
