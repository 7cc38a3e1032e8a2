import Testing

@testable import Gate

/// Paths that some servers read as another route's, in their parameters or encoded slashes.
struct HiddenRouteTests {
    /// `/me` requires more than `/*`; a server that cuts parameters off would route each of these to it.
    @Test(arguments: [
        "/me;a=b", "/me;", "/me;a=b/", "/me;a=b/x", "/me%3B/x", "/me%3b/x", "/me%3Ba%3Db", "/;x/me", "/;/me;y", "/%6de;x", "/x/../me;x",
        "//me;x", "/login;x", "/login;x/", "/%3B/login",
    ])
    func parametersHideNoRoute(_ path: String) throws {
        var login = rule("login", "POST /login", auth: .none)
        login.target = .local(1)
        login.isEndpoint = true
        var open = rule("open", "/*", auth: .none)
        open.errors = .apple
        let harness = try AdmissionHarness([open, rule("me", "/me/*"), login])
        let judged = harness.get(path)
        #expect(judged.status == 400 && judged.code == "BAD_REQUEST" && judged.route == "")
        #expect(judged.explanation.step("path")?.contains("parameters") == true)
    }

    /// Some servers treat everything after the first `;` as parameters.
    @Test func aPathCutAtAParameterHidesNoRoute() throws {
        let harness = try AdmissionHarness([rule("open", "/*", auth: .none), rule("me", "/me")])
        for path in ["/me;a=b/x", "/me;/x/y", "/me%3B/x"] { #expect(harness.get(path).status == 400, "\(path)") }
        for path in ["/mex;a=b/x", "/a/me;a=b/x"] { #expect(harness.get(path).route == "open", "\(path)") }
    }

    /// `encoded-slash=pass` is for names that hold a slash, not for a way past another route.
    @Test func anEncodedSlashHidesNoRoute() throws {
        var files = rule("files", "/files/*", auth: .none)
        files.encodedSlashPasses = true
        let harness = try AdmissionHarness([files, rule("private", "/files/private/*"), rule("admin", "/admin")])
        for path in ["/files/private%2Fx", "/files/private%2fx", "/files/a%2F..%2Fprivate%2Fx", "/files/a%2F..%2F..%2Fadmin", "/files/a%2F..%2F..%2F..%2Fb"] {
            #expect(harness.get(path).status == 400, "\(path)")
        }
        for path in ["/files/a%2Fb", "/files/a%2Fprivate%2Fx", "/files/%2Fa"] {
            let judged = harness.get(path)
            #expect(judged.route == "files" && judged.path ?? path == path, "\(path)")
        }
    }

    /// Servers that decode slashes and cut parameters do either first.
    @Test func anEncodedSlashAndParametersTogetherHideNoRoute() throws {
        var files = rule("files", "/files/*", auth: .none)
        files.encodedSlashPasses = true
        let harness = try AdmissionHarness([files, rule("private", "/files/private/*"), rule("sole", "/files/sole")])
        let hiding = [
            "/files/%2Fprivate;x", "/files/;x%2Fprivate", "/files/;x%2Fprivate/y", "/files/%3Bx%2fprivate%2fy",
            "/files/%2Fsole;x/y", "/files/%2Fsole%3Bx%2Fy",
        ]
        for path in hiding { #expect(harness.get(path).status == 400, "\(path)") }
        for path in ["/files/a;x%2Fprivate", "/files/a%2Fprivate;x", "/files/a%2Fb;x=1%2Fc"] {
            let judged = harness.get(path)
            #expect(judged.route == "files" && judged.path ?? path == path, "\(path)")
        }
    }

    @Test(arguments: ["/x;jsessionid=1", "/x;a/me", "/;x", "/x/;y/z", "/mex;a", "/x%3B/me", "/x;/me;y"])
    func parametersThatHideNothingPass(_ path: String) throws {
        let harness = try AdmissionHarness([rule("open", "/*", auth: .none), rule("me", "/me/*")])
        let judged = harness.get(path)
        #expect(judged.status == 0 && judged.route == "open" && judged.path ?? path == path)
        #expect(harness.get("/me/x;y", token: AdmissionHarness.token()).route == "me")
    }

    @Test func aRouteThatNamesParametersTakesThem() throws {
        let harness = try AdmissionHarness([rule("v", "/a;v=1/*", auth: .none)])
        #expect(harness.get("/a;v=1/b").route == "v")
    }
}
