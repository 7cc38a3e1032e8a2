import HTTP
import Testing
import Wire
import Workbench

@testable import Admin

/// The console's pages as a browser gets them.
@Suite struct ConsoleFilesTests {
    private let files = ConsoleFiles()

    private func get(_ path: String, _ fields: [(String, String)] = [], method: String = "GET") -> LocalResponse {
        files.answer(
            LocalRequest(
                method: method, target: path, path: path, query: "", fields: fields.map { (name: $0.0, value: $0.1) }, body: [],
                client: IPAddress(v4: 1), requestID: "r"))
    }

    private func value(_ name: String, _ answer: LocalResponse) -> String? { answer.fields.first { $0.name == name }?.value }

    @Test func everyFileOfTheFolderIsEmbeddedAsItIs() throws {
        #expect(
            files.names == TemporaryFolder.names(packagePath("Sources/Admin/Console")).sorted(), "name new files in Sources/CSites/csites.c"
        )
        for name in files.names {
            let answer = get("/console/" + name)
            let file = try packageFile("Sources/Admin/Console/" + name)
            #expect(answer.status == 200 && answer.body.rawBytes.text == file, "run Sources/CSites/pack: \(name)")
            let packed = get("/console/" + name, [("Accept-Encoding", "br, gzip")])
            var input = ByteBuffer()
            var out = ByteBuffer()
            input.append(packed.body)
            var decoder = ContentDecoder(.gzip)!
            let end = decoder.decode(&input, room: 1 << 20, into: &out)
            #expect(
                end == .starved && decoder.mayEnd() && out.readable.text == file && value("Content-Encoding", packed) == "gzip", "\(name)")
            #expect(value("ETag", packed) != value("ETag", answer) && value("Vary", packed) == "Accept-Encoding")
        }
        #expect(get("/console/").body == get("/console/index.html").body)
    }

    @Test func itsTypeIsThatOfItsName() {
        let types = [
            "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
            "svg": "image/svg+xml",
        ]
        for name in files.names {
            let type = name.split(separator: ".").last.flatMap { types[String($0)] }
            #expect(type != nil && value("Content-Type", get("/console/" + name)) == type, "\(name)")
        }
    }

    @Test func aBrowserThatHasAFileIsSentNothing() throws {
        let tag = try #require(value("ETag", get("/console/")))
        for known in [tag, "W/\(tag)", "\"x\", \(tag)", "*", " \(tag) "] {
            let answer = get("/console/", [("If-None-Match", known)])
            #expect(answer.status == 304 && answer.body.isEmpty && value("ETag", answer) == tag, "\(known)")
        }
        #expect(get("/console/", [("If-None-Match", "\"x\"")]).status == 200)
        #expect(value("Cache-Control", get("/console/")) == "no-cache")
    }

    @Test(arguments: ["/console/", "/console/nothing", "/console/icon.svg"])
    func everyAnswerHasTheFieldsThatKeepStrangersOut(_ path: String) {
        let answer = get(path)
        let policy = value("Content-Security-Policy", answer)?.split(separator: ";").map { $0.drop { $0 == " " } } ?? []
        #expect(
            policy == [
                "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'",
                "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
            ])
        #expect(value("X-Content-Type-Options", answer) == "nosniff" && value("Referrer-Policy", answer) == "no-referrer")
    }

    @Test func otherPathsAndMethodsAreRefused() {
        for path in ["/console/x", "/console/../index.html", "/console/index.html/", "/console//"] {
            #expect(get(path).status == 404, "\(path)")
        }
        let redirected = get("/console")
        #expect(redirected.status == 303 && value("Location", redirected) == "/console/")
        #expect(get("/console/", method: "POST").status == 405)
        #expect(get("/console/", method: "HEAD").status == 200)
    }
}
