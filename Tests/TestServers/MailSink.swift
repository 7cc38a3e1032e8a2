import Foundation
import Glibc
import Synchronization

/// A real SMTP server (aiosmtpd) on a free port, which returns the mails it receives as Python's mail library parses them. Ends with
/// this object. It takes its time for mails to `slow@`: until one to `open@` has come.
public final class MailSink: Sendable {
    public enum Security: String, Sendable { case none, starttls, tls }

    /// A received mail.
    public struct Received: Decodable, Sendable {
        public let from: String
        public let to: [String]
        public let login: String?
        public let isEncrypted: Bool
        public let headers: [String: String]
        public let type: String
        public let parts: [Part]
        public let defects: [String]
        public let maxLine: Int

        public struct Part: Decodable, Sendable {
            public let type: String
            public let text: String
        }
    }

    public let port: Int
    private let process = Process()
    private let mails = Mutex<[Received]>([])

    /// `answers` are its replies to the first recipients, in place of accepting them. With port 0 the kernel chooses one.
    public init(
        _ security: Security = .none, certificate: (chain: String, key: String)? = nil, login: (user: String, password: String)? = nil,
        answers: [String] = [], port: Int = 0
    ) throws {
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments =
            [
                "-c", Self.script, String(port), security.rawValue, certificate?.chain ?? "", certificate?.key ?? "", login?.user ?? "",
                login?.password ?? "",
            ] + answers
        process.standardOutput = output
        try process.run()
        let lines = LineReader(output.fileHandleForReading)
        guard let port = lines.next().flatMap({ Int($0) }) else {
            throw ServerFault("the mail server cannot be started: is the package python3-aiosmtpd installed?")
        }
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

    public var received: [Received] { mails.withLock { $0 } }

    private static let script = #"""
        import asyncio, email, email.policy, json, ssl, sys
        from aiosmtpd.smtp import SMTP, AuthResult
        listen_port, security, chain, key, user, password, *answers = sys.argv[1:]

        class Handler:
            async def handle_RCPT(self, server, session, envelope, address, options):
                if answers: return answers.pop(0)
                envelope.rcpt_tos.append(address)
                return "250 OK"
            async def handle_DATA(self, server, session, envelope):
                if envelope.rcpt_tos[0].startswith("slow@"): await gate.wait()
                if envelope.rcpt_tos[0].startswith("open@"): gate.set()
                mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
                lines = envelope.content.split(b"\r\n")
                print(json.dumps({
                    "from": envelope.mail_from, "to": envelope.rcpt_tos,
                    "login": session.auth_data.login.decode() if session.authenticated else None,
                    "isEncrypted": session.ssl is not None or security == "tls",
                    "headers": {name: str(value) for name, value in mail.items()}, "type": mail.get_content_type(),
                    "parts": [{"type": part.get_content_type(), "text": part.get_content()} for part in mail.iter_parts()],
                    "defects": [str(d) for part in mail.walk() for d in part.defects],
                    "maxLine": max(map(len, lines)) if b"\n" not in b"".join(lines) else 9999}), flush=True)
                return "250 OK"

        def authenticate(server, session, envelope, mechanism, data):
            return AuthResult(success=data.login.decode() == user and data.password.decode() == password, handled=False, auth_data=data)

        async def main():
            global gate
            gate = asyncio.Event()
            context = None
            if chain:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(chain, key)
            starttls = security == "starttls"
            make = lambda: SMTP(Handler(), enable_SMTPUTF8=True, tls_context=context if starttls else None, require_starttls=starttls,
                auth_required=user != "", auth_require_tls=starttls, authenticator=authenticate)
            server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", int(listen_port), ssl=context if security == "tls" else None)
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
