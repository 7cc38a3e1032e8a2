// swift-tools-version: 6.2
import PackageDescription

/// The settings of every target: Swift 6 mode, explicit existentials, imports and unsafe code, warnings as errors.
let tests: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .treatAllWarnings(as: .error),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableExperimentalFeature("Lifetimes"),
]
/// Every file imports the module of regular expressions otherwise, which with its tables is a sixteenth of the program.
let withoutRegex = SwiftSetting.unsafeFlags(["-Xfrontend", "-disable-implicit-string-processing-module-import"])
/// The settings of shipped targets: also strict memory safety (the test library's macros do not build under it), and fewer
/// indirect jumps, which cost 10 ns each where the processor may not predict them (IBRS): no jump tables, and a statically
/// linked standard library.
let house: [SwiftSetting] =
    tests + [
        .strictMemorySafety(),
        .unsafeFlags(["-static-stdlib", "-Xllvm", "-min-jump-table-entries=64"], .when(configuration: .release)),
        withoutRegex,
    ]
/// The settings of targets off the data plane: smaller code, at the same cost for a sign-in.
let cold: [SwiftSetting] = house + [.unsafeFlags(["-Osize"], .when(configuration: .release))]
/// Symbols are bound when the program starts, so that the table of their addresses is read-only from then on (full RELRO). Nothing loads
/// symbols of the program, so it exports none: the names alone were a megabyte. The addresses that the loader corrects are a bitmap (RELR),
/// a tenth of the list that they would be. Functions with the same instructions, of which generic code has many, are one (ICF).
let program: [LinkerSetting] = [
    .unsafeFlags(["-static-stdlib", "-Xlinker", "--no-export-dynamic"], .when(configuration: .release)),
    .unsafeFlags(["-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs"], .when(configuration: .release)),
    .unsafeFlags(["-Xlinker", "--icf=all"], .when(configuration: .release)),
    .unsafeFlags(["-Xlinker", "-z", "-Xlinker", "now"]),
]

let package = Package(
    name: "tollgate",
    products: [.executable(name: "tollgate", targets: ["tollgate"])],
    targets: [
        // C: module maps, and inline functions for macros that Swift cannot import.
        .target(name: "CLinux"),
        .target(name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(name: "CCurl", linkerSettings: [.linkedLibrary("curl")]),
        .target(name: "CHiredis", linkerSettings: [.linkedLibrary("hiredis")]),
        .target(name: "CArgon2", linkerSettings: [.linkedLibrary("argon2")]),
        .target(name: "CCrypt", linkerSettings: [.linkedLibrary("crypt")]),
        .target(name: "CSQLite", linkerSettings: [.linkedLibrary("sqlite3")]),
        .target(name: "CPostgres", linkerSettings: [.linkedLibrary("pq")]),
        .target(
            name: "CCodings",
            linkerSettings: [
                .linkedLibrary("z"), .linkedLibrary("zstd"), .linkedLibrary("brotlienc"), .linkedLibrary("brotlidec"),
            ]),
        // The files of Sources/Admin/Console and Sources/Contracts/Web, embedded.
        .target(name: "CSites", exclude: ["pack", "packed"]),

        // Core: pure and synchronous.
        .target(name: "Wire", swiftSettings: house),
        .target(name: "Credentials", dependencies: ["Wire", "COpenSSL", "CArgon2", "CCrypt"], swiftSettings: house),
        .target(name: "HTTP", dependencies: ["Wire", "CCodings"], swiftSettings: house),
        .target(name: "Gate", dependencies: ["Wire", "Credentials", "HTTP"], swiftSettings: house),
        .target(name: "Telemetry", dependencies: ["Wire"], swiftSettings: house),

        // Below both planes.
        .target(name: "System", dependencies: ["Wire", "CLinux"], swiftSettings: house),
        .target(name: "Threads", dependencies: ["Wire", "System", "CLinux"], swiftSettings: house),

        // Data plane.
        .target(name: "Transport", dependencies: ["Wire", "System", "Threads", "CLinux", "COpenSSL"], swiftSettings: house),
        .target(name: "Redis", dependencies: ["Wire", "System", "Threads", "Transport", "CHiredis"], swiftSettings: house),
        .target(name: "Limits", dependencies: ["Wire", "HTTP", "Gate", "Redis", "Telemetry", "Transport"], swiftSettings: house),
        .target(
            name: "Proxy",
            dependencies: ["Wire", "Credentials", "HTTP", "Gate", "Limits", "Redis", "Telemetry", "System", "Threads", "Transport"],
            swiftSettings: house),

        // Control plane.
        .target(name: "Accounts", dependencies: ["Wire", "Credentials", "Threads"], swiftSettings: cold),
        .target(
            name: "Storage", dependencies: ["Wire", "Credentials", "Threads", "Accounts", "CSQLite", "CPostgres"], swiftSettings: cold),
        .target(
            name: "Contracts", dependencies: ["Wire", "Credentials", "HTTP", "Gate", "Accounts", "CSites"], exclude: ["Web"],
            swiftSettings: cold),

        .target(
            name: "Settings", dependencies: ["Wire", "Credentials", "Gate", "Telemetry"], swiftSettings: cold),
        .target(name: "Fetch", dependencies: ["Wire", "System", "Threads", "CCurl"], swiftSettings: cold),
        .target(
            name: "Mail", dependencies: ["Wire", "Credentials", "System", "Threads", "Accounts", "Fetch"], swiftSettings: cold),
        .target(name: "Acme", dependencies: ["Wire", "Credentials", "System", "Threads", "Fetch"], swiftSettings: cold),
        .target(name: "Purchases", dependencies: ["Wire", "Credentials", "Threads", "Accounts", "Fetch"], swiftSettings: cold),
        .target(
            name: "Issuers",
            dependencies: ["Wire", "Credentials", "Gate", "Telemetry", "System", "Threads", "Accounts", "Storage", "Fetch"],
            swiftSettings: cold),
        .target(
            name: "Cluster",
            dependencies: ["Wire", "Credentials", "Gate", "System", "Threads", "Accounts", "Storage"],
            swiftSettings: cold),
        .target(
            name: "Admin",
            dependencies: ["Wire", "Credentials", "HTTP", "Gate", "Telemetry", "System", "Threads", "Accounts", "CSites"],
            exclude: ["Console"], swiftSettings: cold),

        // Top.
        .executableTarget(
            name: "tollgate",
            dependencies: [
                "Wire", "Credentials", "HTTP", "Gate", "Limits", "Redis", "Telemetry", "System", "Threads", "Transport", "Proxy",
                "Accounts", "Storage",
                "Contracts", "Settings", "Fetch", "Admin", "Issuers", "Cluster", "Mail", "Purchases", "Acme", "CLinux",
            ],
            swiftSettings: cold, linkerSettings: program),

        .testTarget(name: "WireTests", dependencies: ["Wire"], swiftSettings: tests + [withoutRegex]),
        .testTarget(
            name: "CredentialsTests", dependencies: ["Credentials", "Wire"],
            resources: [.copy("Vectors")], swiftSettings: tests),
        .testTarget(
            name: "HTTPTests", dependencies: ["HTTP", "HTTP2Cases", "Wire"], resources: [.copy("Cases")], swiftSettings: tests),
        .testTarget(
            name: "GateTests", dependencies: ["Gate", "Credentials", "FilterReference", "HTTP", "Limits", "Settings", "Wire"],
            exclude: ["Cases"], swiftSettings: tests),
        .testTarget(name: "TelemetryTests", dependencies: ["Telemetry", "Wire"], swiftSettings: tests),
        .testTarget(name: "TransportTests", dependencies: ["System", "TestServers", "Threads", "Transport", "Wire"], swiftSettings: tests),
        .testTarget(
            name: "RedisTests", dependencies: ["Redis", "System", "TestServers", "TestThreads", "Threads", "Transport", "Wire"],
            swiftSettings: tests),
        .testTarget(
            name: "ProxyTests",
            dependencies: [
                "Proxy", "Credentials", "FilterReference", "Gate", "HTTP", "Limits", "Redis", "System", "Telemetry", "TestServers",
                "TestThreads", "Threads", "Transport", "Wire",
            ],
            swiftSettings: tests),
        .testTarget(
            name: "AdminTests",
            dependencies: [
                "Admin", "Accounts", "Credentials", "Gate", "HTTP", "MemoryStore", "Storage", "Telemetry", "Threads", "Transport", "Wire",
                "Workbench",
            ],
            swiftSettings: tests),
        .testTarget(
            name: "ClusterTests",
            dependencies: [
                "Cluster", "Accounts", "Credentials", "Gate", "MemoryStore", "Storage", "TestServers", "Threads", "Transport", "Wire",
            ],
            swiftSettings: tests),
        .testTarget(name: "AcmeTests", dependencies: ["Acme", "Credentials", "TestServers", "Wire"], swiftSettings: tests),
        .testTarget(
            name: "IssuersTests",
            dependencies: [
                "Issuers", "Credentials", "Fetch", "Gate", "Storage", "System", "Telemetry", "Threads", "Transport", "Wire", "Workbench",
            ],
            swiftSettings: tests),
        .testTarget(
            name: "SettingsTests", dependencies: ["Settings", "Credentials", "Gate", "System", "Telemetry", "Wire"], swiftSettings: tests),
        .testTarget(
            name: "TollgateTests",
            dependencies: [
                "tollgate", "Accounts", "Acme", "Admin", "Credentials", "Fetch", "Gate", "HTTP", "Issuers", "Limits", "Mail", "MemoryStore",
                "Proxy", "Purchases", "Settings", "Storage", "System",
                "Telemetry", "TestThreads", "Threads", "Transport", "Wire", "Workbench",
            ],
            exclude: ["Cases"], swiftSettings: tests),
        // Test support: folders, files of the package, a small HTTP server and waiting.
        .target(
            name: "Workbench", dependencies: ["System", "Threads", "Transport", "Wire"], path: "Tests/Workbench", swiftSettings: tests),
        // Test support: an SQLite database in memory and a limiter, and a process that writes to a database until a test kills it.
        .target(
            name: "MemoryStore", dependencies: ["Accounts", "Storage", "Wire"], path: "Tests/MemoryStore",
            swiftSettings: tests),
        .executableTarget(
            name: "StoreWriter", dependencies: ["Accounts", "Credentials", "Storage", "Threads", "Wire"], path: "Tests/StoreWriter",
            swiftSettings: tests),
        .testTarget(
            name: "AccountsTests", dependencies: ["Accounts", "Credentials", "MemoryStore", "Storage", "Threads", "Wire"],
            swiftSettings: tests),
        // Test oracle: a simple second implementation of the filter, and a generator of random documents.
        .target(name: "FilterReference", dependencies: ["Gate", "Wire"], path: "Tests/FilterReference", swiftSettings: tests),
        // Benchmark of the filter.
        .executableTarget(
            name: "FilterBench", dependencies: ["Gate", "Wire"], path: "Tests/FilterBench", swiftSettings: tests,
            linkerSettings: program),
        // Threads for tests that wait.
        .target(name: "TestThreads", path: "Tests/TestThreads", swiftSettings: tests),
        // Test support: real servers (PostgreSQL), a mail sink, a name server and ports for others.
        .target(name: "TestServers", path: "Tests/TestServers", swiftSettings: tests),
        .testTarget(
            name: "StorageTests",
            dependencies: ["Accounts", "Credentials", "Storage", "StoreWriter", "TestServers", "Threads", "Wire"],
            swiftSettings: tests),
        // Test support: stories of requests and expected responses from case documents, over any transport.
        .target(name: "Stories", path: "Tests/Stories", swiftSettings: tests),
        .testTarget(
            name: "ContractsTests",
            dependencies: [
                "Accounts", "Contracts", "Credentials", "Gate", "HTTP", "Limits", "MemoryStore", "Stories", "Storage", "Threads", "Wire",
            ],
            exclude: ["Cases"], swiftSettings: tests),
        .testTarget(
            name: "MailTests", dependencies: ["Mail", "Accounts", "TestServers", "TestThreads", "Transport", "Wire"], swiftSettings: tests),
        .testTarget(
            name: "PurchasesTests", dependencies: ["Accounts", "Credentials", "Fetch", "Purchases", "Threads", "Wire", "Workbench"],
            swiftSettings: tests),
        // Test support: what clients of HTTP/2 send and what must come of it, from case documents.
        .target(name: "HTTP2Cases", path: "Tests/HTTP2Cases", exclude: ["Documents"], swiftSettings: tests),
        .testTarget(name: "TidyTests", swiftSettings: tests),
        .testTarget(
            name: "EndToEndTests", dependencies: ["HTTP2Cases", "Stories", "TestServers", "TestThreads"],
            exclude: ["Django", "GRPC", "Package", "Passkeys", "RequestCost", "SignedIdentity"],
            swiftSettings: tests),
    ]
)
