import HTTP
import Testing
import Wire

@testable import Admin

/// The description of the admin API, and the table that it is written from.
@Suite struct OpenAPITests {
    @Test func everyOperationIsReachedAndDescribedOnce() async throws {
        let desk = try AdminBench()
        let text = await desk.ask("GET openapi.json").text
        for operation in desk.api.operations {
            let path = operation.path.split(separator: "/").map { $0.hasPrefix("{") ? "x" : String($0) }.joined(separator: "/")
            let found = try AdminOperation.find(desk.request("\(operation.method) \(path)"), in: desk.api.operations).operation
            #expect(found.name == operation.name, "\(operation.method) \(operation.path)")
            #expect(text.contains(#""operationId":"\#(operation.name)""#) && !operation.about.isEmpty)
            #expect(operation.body == nil || operation.method != "GET")
        }
        #expect(Set(desk.api.operations.map(\.name)).count == desk.api.operations.count)
        #expect(Set(desk.api.operations.map { "\($0.method) \($0.path)" }).count == desk.api.operations.count)
        #expect(text.components(of: #""operationId":"#) == desk.api.operations.count)
    }

    @Test func everyNamedSchemaIsThere() async throws {
        let desk = try AdminBench()
        let text = await desk.ask("GET openapi.json").text
        let names = OpenAPIDocument.schemas(of: desk.api.operations, tiers: []).map(\.name)
        #expect(Set(names).count == names.count)
        let referred = text.matches(of: /"#\/components\/schemas\/([A-Za-z]+)"/).map { String($0.1) }
        #expect(Set(referred) == Set(names))
    }

    @Test func aGeneratedClientSendsWhatTheAPITakes() async throws {
        let desk = try AdminBench()
        let text = await desk.ask("GET openapi.json").text
        #expect(text.components(of: #""type":"integer""#) == text.components(of: #""type":"integer","minimum":"#))
        let origin = #"{"name":"Origin","in":"header","required":true,"#
        #expect(text.components(of: origin) == AdminOperation.console.count { $0.method != "GET" } && text.components(of: origin) > 0)
        for part in [
            #"{"name":"limit","in":"query","required":false,"description":"At most so many","schema":{"type":"integer","minimum":1,"maximum":1000}}"#,
            #"{"name":"id","in":"path","required":true,"schema":{"type":"string","format":"uuid"}}"#,
            #""Tier":{"type":"string","enum":["free","premium"]}"#, ##""tier":{"$ref":"#/components/schemas/Tier"}"##,
            #""enum":["password","provider","dlauth","apple","anonymous"]"#,
        ] { #expect(text.contains(part), "\(part)") }
    }

    @Test func thePathAndMethodAreToldApart() async throws {
        let desk = try AdminBench()
        for line in ["GET nothing", "GET users/a/b", "GET users/a/tier/x", "GET ", "GET {id}"] {
            let request = line == "GET " ? "GET /" : line
            #expect(await desk.ask(request).status == 404, "\(line)")
            #expect(await desk.ask(request, "", []).status == 401, "a stranger is told nothing: \(line)")
        }
        let answer = await desk.api.answer(desk.request("PATCH users/x"))
        #expect(answer.status == 405 && answer.fields.contains { $0.name == "Allow" && $0.value == "GET, DELETE" })
        #expect(await desk.ask("HEAD upstreams").status == 200)
        #expect(await desk.ask("GET upstreams?x=1").status == 400)
        #expect(await desk.ask("GET decisions?status=teapot").status == 400)
    }
}

extension String {
    /// How often `part` occurs.
    fileprivate func components(of part: String) -> Int { ranges(of: part).count }
}
