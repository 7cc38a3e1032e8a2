import Fetch
import Testing
import Workbench

@testable import Issuers

/// Questions to a tier server, and its answers.
@Suite struct TierClientTests {
    @Test func theQuestionIsIssuerAndSubjectInTheQuery() {
        func target(_ url: String, _ subject: String) -> String { TierClient.target(url, issuer: "https://i/", subject: subject) }
        #expect(target("http://h/tier", "42") == "http://h/tier?issuer=https%3A%2F%2Fi%2F&subject=42")
        #expect(target("http://h/tier?key=a", "42") == "http://h/tier?key=a&issuer=https%3A%2F%2Fi%2F&subject=42")
        #expect(target("http://h/tier?", "a b&tier=x#") == "http://h/tier?issuer=https%3A%2F%2Fi%2F&subject=a%20b%26tier%3Dx%23")
        #expect(
            target("http://h/tier#part", "../%é:\u{1F600}")
                == "http://h/tier?issuer=https%3A%2F%2Fi%2F&subject=..%2F%25%C3%A9%3A%F0%9F%98%80")
    }

    static let answers: [(Int, String, Result<String?, TierClient.Failure>)] = [
        (200, #"{"tier":"premium"}"#, .success("premium")), (200, #" {"id":1,"tier":null,"more":{"tier":"x"}} "#, .success(nil)),
        (200, #"{"tier":""}"#, .success("")), (200, "{}", failure("the answer has no member tier")),
        (200, #"{"tier":5}"#, failure("the answer is no JSON object with a string or null as its tier")),
        (200, #"{"tier":"free","tier":"premium"}"#, failure("the answer is no JSON object with a string or null as its tier")),
        (200, #"["premium"]"#, failure("the answer is no JSON object with a string or null as its tier")),
        (200, "<html>", failure("the answer is no JSON object with a string or null as its tier")),
        (200, "", failure("the answer is no JSON object with a string or null as its tier")),
        (404, #"{"tier":"premium"}"#, failure("the answer has the status 404")), (204, "", failure("the answer has the status 204")),
        (302, "", failure("the answer has the status 302")), (500, "", failure("the answer has the status 500")),
    ]

    private static func failure(_ reason: String) -> Result<String?, TierClient.Failure> { .failure(TierClient.Failure(reason: reason)) }

    @Test(arguments: answers)
    func onlyAnAnswerWithATierIsOne(_ status: Int, _ body: String, _ result: Result<String?, TierClient.Failure>) {
        #expect(TierClient.tier(EndedTransfer(status: status, body: Array(body.utf8))) == result)
    }

    @Test func aServerIsAskedAndItsLimitsHold() async throws {
        let server = try TinyServer([
            "/t?issuer=i&subject=a%3Ab": TinyServer.answer(Array(#"{"tier":"premium"}"#.utf8)),
            "/t?issuer=i&subject=large": TinyServer.answer(
                Array(#"{"tier":"premium","more":"\#(String(repeating: "x", count: 20_000))"}"#.utf8)),
            "/t?issuer=i&subject=moved": TinyServer.answer([], status: "302 Found", fields: "Location: /t?issuer=i&subject=a%3Ab\r\n"),
        ])
        let client = TierClient()
        let first = await Self.answer(to: "a:b", client, server)
        #expect(first.result == .success("premium"))
        #expect(await isFailure(client.tier(of: "large", issuer: "i", at: server.url("/t"))))
        #expect(await Self.answer(to: "moved", client, server).result == Self.failure("the answer has the status 302"))
        #expect((1...first.questions).contains(server.count("/t?issuer=i&subject=a%3Ab")), "a redirect is not followed")
        server.stop()
        #expect(await isFailure(client.tier(of: "a:b", issuer: "i", at: server.url("/t"))), "it is gone")
        // Many at once are queued, and each is answered.
        let many = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<500 {
                group.addTask { await isFailure(client.tier(of: "\(number)", issuer: "i", at: server.url("/t"))) }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(many == 500)
        client.stop()
        #expect(
            await client.tier(of: "a", issuer: "i", at: server.url("/t"))
                == .failure(TierClient.Failure(reason: "shutting down", isAway: true)))
    }

    /// The server's answer, and how often it was asked: on a busy machine it may take longer than a question may.
    private static func answer(
        to subject: String, _ client: TierClient, _ server: TinyServer
    ) async -> (result: Result<String?, TierClient.Failure>, questions: Int) {
        for questions in 1...20 {
            let result = await client.tier(of: subject, issuer: "i", at: server.url("/t"))
            if case .failure(let failure) = result, failure.isAway { continue }
            return (result, questions)
        }
        return (failure("the server never answers in time"), 20)
    }
}

private func isFailure(_ result: Result<String?, TierClient.Failure>) -> Bool {
    if case .failure = result { true } else { false }
}
