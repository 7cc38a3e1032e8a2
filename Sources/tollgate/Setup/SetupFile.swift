internal import Accounts
internal import Contracts
internal import Credentials
internal import Settings
internal import Wire

/// The env file that `tollgate init` writes: every line with a comment.
struct SetupFile: Sendable {
    let answers: SetupAnswers
    /// For `TOLLGATE_ADMIN_TOKEN` and `TOLLGATE_KEY_SECRET`.
    let secrets: (admin: String, key: String)
    /// The path of the file, from which the data folder follows.
    let path: String
    /// The folder at which relative paths of the answers begin: that of the command, not that of the file.
    let workingDirectory: String

    static func providerName(_ provider: Provider) -> String { Setting.provider.name + provider.rawValue.uppercased() }
    static func trustName(_ answers: SetupAnswers) -> String { Setting.trust.name + answers[.issuer].uppercased() }

    /// The data folder, from the file's folder unless absolute: beside `config/`, and the packages' place for a file in `/etc`.
    var dataFolder: String {
        if absolute(path).hasPrefix("/etc/") { return "/var/lib/tollgate" }
        return absolute(path).split(separator: "/").dropLast().last == "config" ? "../data" : "data"
    }

    /// nil for none, and in a draft whose answers about it are not complete yet.
    private var issuer: OutsideIssuer? {
        do throws(ParseError) { return try answers.outsideIssuer() } catch { return nil }
    }

    /// The claim that the route demands of every token.
    var routeClaim: (name: String, value: String)? { issuer?.claim }

    var text: String {
        var lines = [
            "# Settings of Tollgate, written by `tollgate init`. `tollgate check` validates them after a change, and",
            "# docs/settings.md describes every setting.", "",
        ]
        lines += listeners + accounts + api
        if let issuer { lines += trust(issuer) }
        return (lines + redis).joined(separator: "\n") + "\n"
    }

    private var listeners: [String] {
        var lines: [String] = []
        if !answers[.trustedProxies].isEmpty {
            lines += behindLoadBalancer
        } else if answers[.tlsCertificate].isEmpty {
            lines += ["# Plain HTTP, for clients on this machine."]
            lines += ["TOLLGATE_LISTEN=127.0.0.1:8000"]
        } else {
            lines += ["# HTTPS, for all clients; no plain HTTP.", "TOLLGATE_LISTEN_TLS=0.0.0.0:8443", "TOLLGATE_LISTEN="]
            lines += ["# The certificate with its chain, and its key; changed files are reloaded without a restart."]
            lines += [
                "TOLLGATE_TLS_CERT=\(value(absolute(answers[.tlsCertificate])))", "TOLLGATE_TLS_KEY=\(value(absolute(answers[.tlsKey])))",
            ]
        }
        lines += [
            "# The URL under which clients reach the gateway; also the iss of its own tokens.",
            "TOLLGATE_PUBLIC_URL=\(value(answers.publicURL))",
        ]
        lines += ["# Health, metrics and the admin API: never reachable from outside.", "TOLLGATE_ADMIN_LISTEN=127.0.0.1:9090"]
        lines += ["# The bearer token of the admin API, generated for this file. It opens every account: keep the file private."]
        return lines + ["TOLLGATE_ADMIN_TOKEN=\(secrets.admin)", ""]
    }

    /// Plain HTTP on all addresses, unless all load balancers are on this machine.
    private var behindLoadBalancer: [String] {
        let networks = answers[.trustedProxies]
        let isHere = networks.split(separator: " ").allSatisfy { $0.hasPrefix("127.") || $0 == "::1" || $0 == "::1/128" }
        return [
            "# Plain HTTP, for the load balancers in front that end TLS: let nothing else reach this port.",
            "TOLLGATE_LISTEN=\(isHere ? "127.0.0.1" : "0.0.0.0"):8000",
            "# Their networks: what they say of a client's address in X-Forwarded-For or Forwarded is believed.",
            "TOLLGATE_TRUSTED_PROXIES=\(value(networks))",
        ]
    }

    private var accounts: [String] {
        var lines = ["# The folder of the signing keys and the accounts' database, created at the first start. Back it up."]
        lines += ["TOLLGATE_DATA_DIR=\(dataFolder)"]
        guard let contract = answers.contractID else {
            return lines + ["# No sign-in API; `tollgate token mint` makes tokens to try the gateway with.", "TOLLGATE_CONTRACTS=", ""]
        }
        let mail = Catalogue.sendsMail(contract) ? " Mail lands in the outbox that `tollgate outbox` prints, until SMTP_URL is set." : ""
        lines += ["# The sign-in API of the apps, at the base path of its document (docs/contracts/\(contract.name).md).\(mail)"]
        lines += ["TOLLGATE_CONTRACTS=\(value("\(contract.name)@\(Catalogue.documentedBase(of: contract))"))"]
        for provider in Catalogue.providers(of: contract) where !answers[provider].isEmpty {
            lines += ["# The apps whose ID tokens are accepted."]
            lines += ["\(Self.providerName(provider))=\(value("client-ids=" + answers[provider]))"]
        }
        return lines + [""]
    }

    private var api: [String] {
        var lines = [
            "# Your API. Several addresses of it are separated by spaces; health=/healthz probes them.",
            "TOLLGATE_UPSTREAM_API=\(value(answers[.upstream]))",
        ]
        lines += ["# Every path of it, for callers with a valid token, each 600 times a minute (`tollgate help routes` lists the keys)."]
        var route = "/* upstream=api auth=required limit=600/m"
        if let contract = answers.contractID {
            lines += ["# errors= writes refusals as the sign-in API does, so that apps read both alike."]
            route += " errors=\(contract.name)"
        }
        if let claim = routeClaim {
            lines += [
                "# claims= admits the tokens of one app client alone; `tollgate token mint` needs --claim \(claim.name)=\(claim.value), too."
            ]
            route += " claims=\(claim.name)=\(claim.value)"
        }
        return lines + ["TOLLGATE_ROUTE_API=\(value(route))", ""]
    }

    private func trust(_ issuer: OutsideIssuer) -> [String] {
        issuer.kind.notes.map { "# " + $0 } + ["\(Self.trustName(answers))=\(value(issuer.trustLine))", ""]
    }

    private var redis: [String] {
        guard !answers[.redis].isEmpty else { return [] }
        return [
            "# The Redis in which several gateways share their limits (docs/several-gateways.md).", "REDIS_URL=\(value(answers[.redis]))",
            "# Generated for this file, the same on all gateways: keys the hashes of limits there, and authenticates their messages.",
            "TOLLGATE_KEY_SECRET=\(secrets.key)",
        ]
    }

    private func absolute(_ path: String) -> String { path.hasPrefix("/") ? path : workingDirectory + "/" + path }

    /// In double quotes, unless every character is plain.
    private func value(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "/.:_-@".utf8.contains($0) }
        guard !isPlain else { return text }
        return "\"" + text.reduce(into: "") { $0 += "\"\\$`".contains($1) ? "\\\($1)" : String($1) } + "\""
    }
}
