import Foundation
import TestServers
import TestThreads
import Testing

/// `docs/django.md`, followed to its end: a Django service with accounts is put in front of the gateway, and nothing is lost.
@Suite(.ownThread, .timeLimit(.minutes(10))) struct DjangoPageTests {
    static let page = "docs/django.md"

    @Test func theServiceMovesInAsThePageSays() throws {
        let page = try #require(DocumentPage.all().first { $0.path == Self.page })
        let world = try DjangoWorld(page)
        let old = try world.signInBefore(["ada", "bob", "eve"])
        try world.follow(page)
        let dan = try JSON(String(contentsOfFile: world.folder.file("backend/dan.json"), encoding: .utf8))["tokens"]
        // Signed in before the gateway came, by now, or never.
        var callers: [(name: String?, token: String?, isPremium: Bool)] = [(nil, nil, false), ("dan", try must(dan["access"]), true)]
        for (name, token) in old { callers.append((name, token, name == "ada")) }
        for (name, isPremium) in [("ada", true), ("bob", false), ("carol", true), ("eve", false)] {
            callers.append((name, try world.signIn(name), isPremium))
        }
        for caller in callers {
            let user = try caller.name.map { name in
                let me = try world.gateway("GET /api/v1/auth/me", bearer: caller.token)
                #expect(try me.status == 200 && JSON(me.text)["is_premium"].bool == caller.isPremium, "\(name): \(me.text)")
                return try must(JSON(me.text)["id"])
            }
            try look(world, caller.token, as: user, isPremium: caller.isPremium)
        }
        try strangersSignUp(world)
        try djangoKeepsItsPagesAndItsSignIn(world)
        try review(world, bob: try #require(old["bob"]), ada: try #require(old["ada"]))
    }

    /// Each gets a row in Django at the first request, with a user name and an email of its own, whatever others have.
    private func strangersSignUp(_ world: DjangoWorld) throws {
        for name in ["frank", "grace"] {
            let answer = try world.gateway("POST /api/v1/auth/register", credentials("\(name)@example.org", "a password of \(name)"))
            let (id, token) = try (must(JSON(answer.text)["user"]["id"]), must(JSON(answer.text)["tokens"]["access"]))
            for _ in 1...2 {
                let shown = try world.gateway("GET /api/v1/profile/", bearer: token)
                #expect(
                    try shown.status == 200 && JSON(shown.text)["id"].text == id && JSON(shown.text)["username"].text == id,
                    "\(name): \(shown.text)")
            }
        }
        // A proven email becomes the row's, unless another row has it, as of an account that was deleted at the gateway alone.
        for (number, email) in [(1, "henry@example.org"), (2, "accounts.invalid")] {
            let shown = try world.django(
                "GET /api/v1/profile/", as: "0193aaaa-0000-7000-8000-00000000000\(number)", email: "Henry@example.org")
            #expect(try shown.status == 200 && JSON(shown.text)["email"].text?.lowercased().hasSuffix(email) == true, "\(shown.text)")
        }
        // No user: 401 and not 403, so that apps sign in.
        let nobody = try world.gateway("GET /api/v1/profile/")
        #expect(nobody.status == 401 && nobody["WWW-Authenticate"] == "Bearer", "\(nobody.text)")
    }

    /// The service's own pages, its errors in HTML, and a sign-in with a provider's token that stays in Django.
    private func djangoKeepsItsPagesAndItsSignIn(_ world: DjangoWorld) throws {
        let plans = try world.gateway("GET /web/plans/")
        #expect(plans.status == 200 && plans.text == "<h1>Plans</h1>")
        let known = try JSON(world.gateway("POST /api/v1/auth/google", #"{"id_token":"1234567"}"#).text)
        let token = try must(known["tokens"]["access"])
        #expect(try JSON(world.gateway("GET /api/v1/auth/me", bearer: token).text)["is_premium"].bool == true)
        // Who came after the export is a user without an account here, of the lowest tier.
        let new = try must(JSON(world.gateway("POST /api/v1/auth/google", #"{"id_token":"7654321"}"#).text)["tokens"]["access"])
        #expect(try world.gateway("GET /api/v1/passages/2/", bearer: new).status == 200)
        #expect(try world.gateway("GET /api/v1/passages/3/", bearer: new).status == 403)
        for (path, status) in [("/api/v1/nothing", 404), ("/api/v1/broken/", 500)] {
            let answer = try world.gateway("GET \(path)")
            #expect(
                try answer.status == status && JSON(answer.text)["error"]["code"].text == "UPSTREAM_ERROR",
                "\(path): \(answer.status) \(answer.text)")
        }
    }

    /// Every GET of one caller: nothing above the tier leaves, and every answer that leaves whole is byte for byte Django's.
    private func look(_ world: DjangoWorld, _ token: String?, as user: String?, isPremium: Bool) throws {
        let details = (1...12).map { ("/api/v1/passages/\($0)/", $0 % 3 == 0) } + (1...8).map { ("/api/v1/lessons/\($0)/", $0 % 2 == 0) }
        for (path, isAbove) in details {
            let (answer, sent) = (try world.gateway("GET \(path)", bearer: token), try world.django("GET \(path)", as: user))
            if isAbove, !isPremium {
                #expect(
                    try answer.status == 403 && JSON(answer.text)["error"]["code"].text == "PREMIUM_REQUIRED", "\(path): \(answer.text)")
            } else {
                #expect(answer.status == 200 && answer.text == sent.text, "\(path)")
            }
        }
        for (path, step, count) in [("/api/v1/passages/", 3, 40), ("/api/v1/lessons/", 2, 20)] {
            let (answer, sent) = (try world.gateway("GET \(path)", bearer: token), try world.django("GET \(path)", as: user))
            #expect(answer.status == 200)
            let seen = try JSON(answer.text)["results"].array.map { Int(try must($0["title"]).split(separator: " ")[1]) }
            #expect(seen == (1...count).filter { isPremium || $0 % step != 0 }, "\(path)")
            if isPremium { #expect(answer.text == sent.text) }
        }
        for path in ["/api/v1/reviews/", "/api/v1/progress/passage/3/review", "/api/v1/passages/99/"] {
            let (answer, sent) = (try world.gateway("GET \(path)", bearer: token), try world.django("GET \(path)", as: user))
            #expect(answer.status == sent.status && answer.text == sent.text, "\(path): \(answer.text)")
        }
    }

    /// What a user writes with a token of before is theirs, and an endpoint in the middle of a path has a policy of its own.
    private func review(_ world: DjangoWorld, bob: String, ada: String) throws {
        #expect(try world.gateway("POST /api/v1/progress/passage/2/review", #"{"score":3}"#).status == 401)
        #expect(try world.gateway("POST /api/v1/progress/passage/2/review", #"{"score":3}"#, bearer: bob).status == 201)
        for (token, count) in [(bob, 1), (ada, 0)] {
            #expect(try JSON(world.gateway("GET /api/v1/reviews/", bearer: token).text)["results"].array.count == count)
        }
        let start = ContinuousClock.now
        var statuses: [Int] = []
        repeat {
            statuses.append(try world.gateway("POST /api/v1/progress/passage/2/review", #"{"score":3}"#, bearer: ada).status)
        } while statuses.last == 201 && statuses.count < 300
        // Thirty a minute: one more has room for each two seconds that they have taken.
        let refilled = Int((ContinuousClock.now - start).components.seconds) / 2 + 1
        #expect(statuses.last == 429 && statuses.dropLast().allSatisfy { $0 == 201 }, "\(statuses)")
        #expect((30...30 + refilled).contains(statuses.count - 1), "\(statuses.count) in \(2 * refilled) s")
    }
}

/// The service as the page finds it, a shell that follows the page, and the gateway that it starts.
private final class DjangoWorld {
    private static let mark = "--- end of a command ---"

    let folder: Folder
    private let service: DjangoService
    private let shell: Subprocess
    /// The page's ports, and those that are listened at.
    private let ports: [Int: Int]
    private var read = 0

    init(_ page: DocumentPage) throws {
        folder = try Folder()
        service = try DjangoService(authentication: try Self.authentication(page))
        try FileManager.default.createDirectory(atPath: folder.file("bin"), withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(atPath: folder.file("bin/tollgate"), withDestinationPath: try Tollgate.binary.get())
        try FileManager.default.createSymbolicLink(atPath: folder.file("backend"), withDestinationPath: service.folder.path)
        ports = [8000: try Listening().port, 9090: try Listening().port, 8001: service.port]
        let environment = ["PATH": folder.file("bin") + ":/usr/bin:/bin", "HOME": folder.path, "LC_ALL": "C.UTF-8"]
        shell = try Subprocess("/bin/bash", [], environment: service.environment.merging(environment) { $1 })
        shell.say("cd '\(folder.path)'\n")
    }

    /// The code that the page has Django believe the gateway by.
    private static func authentication(_ page: DocumentPage) throws -> String {
        let module = page.blocks.first { $0.language == "python" && $0.lines.first?.contains("service/authentication.py") == true }
        return try #require(module).lines.joined(separator: "\n") + "\n"
    }

    deinit {
        // The gateway is the shell's; it ends with the pid that the shell has noted.
        shell.say("kill $!; wait; exit\n")
        _ = try? shell.exitCode()
    }

    /// Runs the commands of a page and checks what they print.
    func follow(_ page: DocumentPage) throws {
        for step in try page.steps() {
            let printed = try run(step.command)
            try #require(
                DocumentOutput.matches(step.output, printed),
                "\(page.path):\(step.line): \(step.command) prints\n\(printed.joined(separator: "\n"))")
        }
    }

    private func run(_ command: String) throws -> [String] {
        let command = ports.reduce(command) { $0.replacing("127.0.0.1:\($1.key)", with: "127.0.0.1:\($1.value)") }
        shell.say("{\n\(command)\n} </dev/null 2>&1\nprintf '\\n%s\\n' '\(Self.mark)'\n")
        let (from, mark) = (read, Self.mark)
        let lines = try shell.output.wait(for: "the end of \(command)", seconds: 60, until: { $0.dropFirst(from).contains(mark) })
        let printed = lines[from...].prefix { $0 != mark }
        read = from + printed.count + 1
        return Array(printed)
    }

    /// Access tokens of people who signed in at Django.
    func signInBefore(_ names: [String]) throws -> [String: String] {
        try Dictionary(uniqueKeysWithValues: names.map { ($0, try service.signIn($0).access) })
    }

    func signIn(_ name: String) throws -> String {
        let answer = try gateway("POST /api/v1/auth/login", credentials("\(name)@example.org", "a password of \(name)"))
        return try must(JSON(answer.text)["tokens"]["access"])
    }

    func gateway(_ request: String, _ json: String? = nil, bearer: String? = nil) throws -> Message {
        try Connection(port: ports[8000] ?? 0).send(request, json, bearer: bearer)
    }

    /// Django's own answer to a user that the gateway has verified.
    func django(_ request: String, as user: String?, email: String? = nil) throws -> Message {
        let connection = try Connection(port: service.port)
        let field = (user.map { "X-User-Id: \($0)\r\n" } ?? "") + (email.map { "X-User-Email: \($0)\r\n" } ?? "")
        try connection.send("\(request) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\(field)\r\n")
        return try connection.answer()
    }
}
