import Foundation

/// The Django service of `Django/service`, with people in it. Ends with its owner.
final class DjangoService: Sendable {
    static let secret = "a secret of the tests that is long enough"

    /// Its data, and in `service` its code.
    let folder: Folder
    let port: Int
    private let process: Subprocess

    /// `authentication` is the module `service/authentication.py`, by whose `CallerAuthentication` it believes a gateway in front.
    init(authentication: String? = nil) throws {
        folder = try Folder()
        for name in ["manage.py", "service"] {
            try FileManager.default.copyItem(at: Self.code.appending(path: name), to: URL(filePath: folder.file(name)))
        }
        try Self.run("people", folder)
        var environment = Self.environment(folder)
        if let authentication {
            try folder.write("service/authentication.py", authentication)
            environment["SERVICE_AUTHENTICATION"] = "service.authentication.CallerAuthentication"
        }
        process = try Subprocess(Self.python, ["-m", "service", "serve"], environment: environment)
        let lines = try process.output.wait(for: "the service's port", seconds: 60) { !$0.isEmpty }
        guard let port = Int(lines[0]) else { throw Fault("no port: \(lines)") }
        self.port = port
    }

    /// Debian's own Python, which has Debian's packages.
    private static let python = "/usr/bin/python3"

    private static let code = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appending(path: "Django")

    /// For its own commands.
    var environment: [String: String] { Self.environment(folder) }

    private static func environment(_ folder: Folder) -> [String: String] {
        ["SERVICE_DATA": folder.path, "PYTHONPATH": folder.path, "PYTHONDONTWRITEBYTECODE": "1", "SERVICE_SECRET": secret]
    }

    @discardableResult
    private static func run(_ words: String..., in folder: Folder) throws -> String {
        try mustRun(python, ["-m", "service"] + words, environment: environment(folder))
    }

    private static func run(_ word: String, _ folder: Folder) throws { try run(word, in: folder) }

    /// Every account as a line for `tollgate user import`.
    func export() throws -> String { try Self.run("export", in: folder) }

    /// Signs in as an app did before; the pair of tokens.
    func signIn(_ name: String) throws -> (user: String, access: String, refresh: String) {
        let answer = try Connection(port: port).send("POST /api/v1/auth/login", credentials("\(name)@example.org", "a password of \(name)"))
        guard answer.status == 200 else { throw Fault("\(name) is not signed in: \(answer.text)") }
        let body = try JSON(answer.text)
        return (try must(body["user"]["id"]), try must(body["tokens"]["access"]), try must(body["tokens"]["refresh"]))
    }

    /// The trust line of a gateway in front of it.
    func trust(_ folder: Folder) throws -> String {
        try folder.write("django-secret", Self.secret)
        return "audience=any secret-file=\(folder.file("django-secret")) algorithms=HS256 user-claim=user_id accounts=on "
            + "refresh=http://127.0.0.1:\(port)/api/v1/auth/refresh refresh-contract=password"
    }
}
