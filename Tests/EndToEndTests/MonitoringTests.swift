import Foundation
import TestThreads
import Testing

/// Alerts and dashboards against the metrics that the program has.
@Suite(.ownThread) struct MonitoringTests {
    private static let folder = repository.appending(path: "deploy/monitoring")
    private static let files =
        ["alerts.yml", "alerts.test.yml", "alerts-slow.test.yml"]
        + ["answers", "auth", "cluster", "limits", "purchases", "traffic", "upstreams"].map { "grafana/\($0).json" }

    @Test(arguments: files) func everyMetricAndLabelExists(_ file: String) throws {
        let table = try #require(
            try JSONSerialization.jsonObject(with: Data(try mustRun(try Tollgate.binary.get(), ["metrics", "--json"]).utf8))
                as? [[String: Any]])
        var labels: [String: Set<String>] = [:]
        for row in table {
            let name = try #require(row["name"] as? String)
            let own = Set(try #require(row["labels"] as? [String]))
            labels[name] = own
            for part in ["_bucket", "_sum", "_count"] where row["type"] as? String == "histogram" {
                labels[name + part] = own.union(["le"])
            }
        }
        let text = try String(contentsOf: Self.folder.appending(path: file), encoding: .utf8).replacingOccurrences(of: "\\\"", with: "\"")
        let uses = text.matches(of: /\b(tollgate_[a-z0-9_]+)(?:\{([^}]*)\})?/)
        #expect(uses.count >= 6)
        for use in uses {
            let known = try #require(labels[String(use.1)], "\(file): there is no metric \(use.1)")
            let named = (use.2 ?? "").matches(of: /([a-z_]+)(?:=~|!=|!~|=)"/).map { String($0.1) }
            #expect(Set(named).isSubset(of: known.union(["job", "instance"])), "\(file): \(use.0)")
        }
    }

    @Test(arguments: files.filter { $0.hasSuffix(".json") }) func everyDashboardIsOne(_ file: String) throws {
        let data = try Data(contentsOf: Self.folder.appending(path: file))
        let dashboard = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
        #expect((dashboard["uid"] as? String)?.hasPrefix("tollgate-") == true)
        let panels = try #require(dashboard["panels"] as? [[String: Any]])
        #expect(panels.count >= 6 && Set(panels.compactMap { $0["id"] as? Int }).count == panels.count)
        for panel in panels { #expect((panel["targets"] as? [Any])?.isEmpty == false) }
    }

    @Test(.enabled(if: isThere("/usr/bin/promtool"))) func prometheusTakesRulesAndConfigurationAndTheAlertsFireAsTold() throws {
        for file in Self.files.filter({ $0.hasSuffix(".test.yml") }) {
            let tested = try run("/usr/bin/promtool", ["test", "rules", Self.folder.appending(path: file).path])
            #expect(tested.code == 0, "\(tested.output)\(tested.complaints)")
        }
        let checked = try run("/usr/bin/promtool", ["check", "config", Self.folder.appending(path: "prometheus.yml").path])
        #expect(checked.code == 0, "\(checked.output)\(checked.complaints)")
    }

    @Test(.enabled(if: isThere("/usr/bin/promtool"))) func prometheusTakesTheExposition() throws {
        let gateway = try Gateway("TOLLGATE_LISTEN=127.0.0.1:0")
        try gateway.ask("GET /nowhere")
        let outcome = try run("/usr/bin/promtool", ["check", "metrics"], input: try gateway.askAdmin("/metrics").text)
        #expect(outcome.code == 0 && outcome.complaints == "", "\(outcome.complaints)")
    }

    @Test func aCertificateSaysWhenItExpires() throws {
        let folder = try Folder()
        try mustRun(
            "/usr/bin/openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj",
                "/CN=api.example.org",
                "-addext", "subjectAltName=DNS:api.example.org", "-keyout", folder.file("key.pem"), "-out", folder.file("cert.pem"),
            ])
        let gateway = try Gateway(
            "TOLLGATE_LISTEN_TLS=127.0.0.1:0\nTOLLGATE_TLS_CERT=\(folder.file("cert.pem"))\nTOLLGATE_TLS_KEY=\(folder.file("key.pem"))",
            folder: folder)
        let expiry = try gateway.metric("tollgate_tls_certificate_expiry_timestamp_seconds", #"name="api.example.org""#)
        let days = (expiry - Date().timeIntervalSince1970) / 86_400
        #expect((29...31).contains(days))
    }
}
