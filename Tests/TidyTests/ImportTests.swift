import Testing

/// The import table: which of our targets each target may import.
private let rings: [String: Set<String>] = [
    // Core.
    "Wire": [],
    "Credentials": ["Wire", "COpenSSL", "CArgon2", "CCrypt"],
    "HTTP": ["Wire", "CCodings"],
    "Gate": ["Wire", "Credentials", "HTTP"],
    "Telemetry": ["Wire"],
    // Below both planes.
    "System": ["Wire", "CLinux"],
    "Threads": ["Wire", "System", "CLinux"],
    // Data plane.
    "Transport": ["Wire", "System", "Threads", "CLinux", "COpenSSL"],
    "Redis": ["Wire", "System", "Threads", "Transport", "CHiredis"],
    "Limits": ["Wire", "HTTP", "Gate", "Redis", "Telemetry", "Transport"],
    "Proxy": ["Wire", "Credentials", "HTTP", "Gate", "Limits", "Redis", "Telemetry", "System", "Threads", "Transport"],
    // Control plane: none of it knows the data plane.
    "Accounts": ["Wire", "Credentials", "Threads"],
    "Storage": ["Wire", "Credentials", "Threads", "Accounts", "CSQLite", "CPostgres"],
    "Contracts": ["Wire", "Credentials", "HTTP", "Gate", "Accounts", "CSites"],
    "Settings": ["Wire", "Credentials", "Gate", "Telemetry"],
    "Fetch": ["Wire", "System", "Threads", "CCurl"],
    "Mail": ["Wire", "Credentials", "System", "Threads", "Accounts", "Fetch"],
    "Purchases": ["Wire", "Credentials", "Threads", "Accounts", "Fetch"],
    "Acme": ["Wire", "Credentials", "System", "Threads", "Fetch"],
    "Issuers": ["Wire", "Credentials", "Gate", "Telemetry", "System", "Threads", "Accounts", "Storage", "Fetch"],
    "Cluster": ["Wire", "Credentials", "Gate", "System", "Threads", "Accounts", "Storage"],
    "Admin": ["Wire", "Credentials", "HTTP", "Gate", "Telemetry", "System", "Threads", "Accounts", "CSites"],
    // Top.
    "tollgate": [
        "Wire", "Credentials", "HTTP", "Gate", "Limits", "Redis", "Telemetry", "System", "Threads", "Transport", "Proxy", "Accounts",
        "Storage", "Contracts",
        "Settings", "Fetch", "Admin", "Issuers", "Cluster", "Mail", "Purchases", "Acme", "CLinux",
    ],
    // C.
    "CLinux": [], "COpenSSL": [], "CCurl": [], "CHiredis": [], "CArgon2": [], "CCrypt": [], "CSQLite": [], "CPostgres": [], "CCodings": [],
    "CSites": [],
]

/// The system modules that each ring may import.
private let systemModules: [String: Set<String>] = [
    // `AddressPin` needs an atomic.
    "Wire": ["Glibc", "Synchronization"], "Credentials": ["Synchronization"], "HTTP": [], "Telemetry": [],
    "Gate": ["Synchronization"],
    // Its table wants memory that the kernel commits as it is used, which calloc gives and Swift does not.
    "Limits": ["Glibc", "Synchronization"],
    // Its queue needs a lock to wait at.
    "System": ["Glibc"], "Threads": ["Glibc", "Synchronization"],
    "Transport": ["Glibc", "Synchronization"], "Redis": [], "Proxy": ["Glibc", "Synchronization"],
    // Calls on all threads share what is known of the store's clock; the standard library is named to ask it for NFC.
    "Accounts": ["Swift", "Synchronization"],
    "Storage": ["Glibc", "Synchronization"],
    "Settings": [], "Fetch": ["Synchronization"], "Purchases": ["Synchronization"], "Acme": ["Glibc"],
    "Mail": ["Glibc", "Synchronization"],
    "Issuers": ["Glibc", "Synchronization"], "Cluster": ["Glibc", "Synchronization"], "Admin": ["Glibc", "Synchronization"],
    "tollgate": ["Glibc", "Synchronization", "FoundationEssentials"],
]

@Suite struct ImportTests {
    @Test func everyTargetHasItsPlaceInTheRings() {
        for target in SourceTree.targets {
            #expect(rings[target] != nil, "\(target) is not in the table of rings: say there what it may know of")
        }
        for target in rings.keys.sorted() {
            #expect(SourceTree.targets.contains(target), "\(target) is in the table of rings and not in Sources: take it out")
        }
    }

    @Test func thePackageDeclaresJustTheRings() throws {
        let declared = try PackageManifest.dependencies()
        for (target, allowed) in rings {
            #expect(declared[target] == allowed, "Package.swift and the table of rings differ over \(target): change both together")
        }
    }

    @Test func noFileImportsPastItsRing() throws {
        for file in SourceTree.swiftSources {
            let allowed = (rings[file.target] ?? []).union(systemModules[file.target] ?? [])
            for line in try file.lines() {
                guard let module = importedModule(line.code) else { continue }
                #expect(
                    allowed.contains(module),
                    "\(file.path):\(line.number): \(file.target) must not know of \(module): move the code to a ring that may, or pass the value in"
                )
            }
        }
    }

    @Test func testsImportOnlyDeclaredDependencies() throws {
        let declared = try PackageManifest.dependencies()
        for file in SourceTree.files(in: "Tests", suffixes: [".swift"]) {
            for line in try file.lines() {
                guard let module = importedModule(line.code), rings[module] != nil else { continue }
                #expect(
                    declared[file.target]?.contains(module) == true,
                    "\(file.path):\(line.number): add \(module) to the dependencies of \(file.target) in Package.swift")
            }
        }
    }

    /// The module that a line imports: `package import struct Wire.Slice` names Wire.
    private func importedModule(_ code: String) -> String? {
        guard code.mentions("import") else { return nil }
        let words = code.split(whereSeparator: { $0 == " " || $0 == ";" })
        guard let place = words.firstIndex(of: "import"), place + 1 < words.count else { return nil }
        let isDeclaration = words[..<place].allSatisfy {
            $0.hasPrefix("@") || ["package", "public", "internal", "private", "fileprivate"].contains($0)
        }
        guard isDeclaration else { return nil }
        let kinds: Set<Substring> = ["struct", "class", "enum", "protocol", "func", "let", "var", "typealias"]
        let named = kinds.contains(words[place + 1]) && place + 2 < words.count ? words[place + 2] : words[place + 1]
        return named.split(separator: ".").first.map(String.init)
    }
}

/// The dependency lists in Package.swift, read from its text.
private enum PackageManifest {
    static func dependencies() throws -> [String: Set<String>] {
        let text = try TreeFile(path: "Package.swift").text()
        var found: [String: Set<String>] = [:]
        for part in text.split(separator: "arget(").dropFirst() {
            guard let name = quoted(after: "name:", in: part).first else { continue }
            let list = part.firstRange(of: "dependencies: [").map { part[$0.upperBound...].prefix { $0 != "]" } } ?? ""
            found[name] = Set(quoted(after: "", in: list))
        }
        return found
    }

    /// The quoted strings after `mark`.
    private static func quoted(after mark: String, in text: Substring) -> [String] {
        guard let start = mark.isEmpty ? text.startIndex : text.firstRange(of: mark)?.upperBound else { return [] }
        return text[start...].split(separator: "\"", omittingEmptySubsequences: false).enumerated()
            .compactMap { $0.offset % 2 == 1 ? String($0.element) : nil }
    }
}
