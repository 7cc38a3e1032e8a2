/// Names that the tree no longer uses, each with the one that took its place. Add a row with every rename of a type, or an
/// old branch brings the old name back.
let renamedTypes: [String: String] = [
    "AccountAnswer": "AccountView", "AccountBase": "AccountContext", "AccountBelongings": "AccountDetails",
    "AccountDesk": "OfflineAccounts", "AccountFinding": "AccountDiagnosis", "AccountHost": "AccountsRuntime",
    "AccountMemory": "AccountCache", "AddressedWords": "UpstreamHead", "AttemptLedger": "RefundableLimiter",
    "Boarding": "RefreshFlights.Role", "ChangeWatch": "ChangeLogPoller", "CommandNews": "ChangeAnnouncement",
    "Complaint": "ParseError", "ControlState": "WorkerBroadcast, ActiveConfiguration or ConditionLog",
    "DecisionNote": "DecisionRecord", "Dispatch": "OutgoingMessage", "Enrolment": "ImportedAccount",
    "Gatehouse": "AdmissionHarness", "GatewayCensus": "GatewayHeartbeat", "GiveBackScript": "RefundScript",
    "HTTP2ClientConnection": "HTTP2Core", "HTTP2ClientEvent": "HTTP2Event", "HTTP2ServerConnection": "HTTP2Core",
    "HealthBoard": "ConditionLog, ReadinessBoard or ProcessCounts", "HeardCounts": "DenyCache", "InPlace": "AddressPin",
    "KeyFeed": "KeySetRefresher",
    "LedgerWorld": "SharedLimitSimulation", "LimitLedger": "SharedLimitClient", "LimitPace": "LimitDemand",
    "LimitProof": "LimitVerifier", "LimitSheet": "CompiledLimits", "LimitTerm": "LimitRule",
    "MetricVocabulary": "MetricLabelValue", "MetricWord": "MetricLabelValue", "MetricWords": "FixedLabelValues",
    "Occasion": "AuditContext", "OutsideRefreshes": "ExternalRefresher", "Pace": "MinimumRate", "PinnedKey": "PublicKeyPin",
    "Places": "UniqueArray", "ReceiveRoom": "AdaptiveReadSize", "RefusalStory": "ExplainedRefusal",
    "RequestMarks": "RequestIDs", "SharedRefresh": "RefreshLease", "SpliceDriver": "BodyPump", "Standing": "TierStatus",
    "Standings": "TierCache", "StoredNews": "ChangeLogPoller", "StreamContent": "StreamMessage",
    "TokenSighting": "TokenDelivery",
    "TokenSightings": "TokenConfirmations", "UnansweredCommands": "PendingCommands", "UserLookUps": "TierLookups",
    "UserStanding": "UserTier", "VirtualStore": "SimulatedRedis", "Wording": "MessageTemplates",
    "WorkerNews": "ChangeLogPoller",
]

/// Members and variables of those types, likewise.
let renamedMembers: [String: String] = [
    "gatewaysCounted": "gatewayCountChanged", "giveBack": "refund", "goOn": "the name of what continues: resumeClient, serveWaiting",
    "heardCounts": "denyCacheCapacity", "standings": "tierCache", "storeIsAway": "storeFailed", "storeIsBack": "storeRecovered",
    "takeCensus": "readHeartbeat", "takeUnread": "recordUnparsed",
]

/// A phrase that a reader has to decode, and what to write in its place.
struct Riddle {
    var words: String
    var instead: String
    /// Whether it counts only where a comment begins.
    var onlyAtStart = false

    static let all: [Riddle] = [
        .init(words: "What", instead: "the noun: what it is, by its field's name", onlyAtStart: true),
        .init(words: "Whatever", instead: "the noun: what it is, by its field's name", onlyAtStart: true),
        .init(words: "Whoever", instead: "who acts: client, worker, Redis, operator"),
        .init(words: "whoever", instead: "who acts: client, worker, Redis, operator"),
        .init(words: "nobody", instead: "\"no client\", \"anonymous\", \"none\": who is missing, or delete it"),
        .init(words: "Nobody", instead: "\"no client\", \"anonymous\", \"none\": who is missing, or delete it"),
        .init(words: "somebody", instead: "who acts: client, worker, Redis, operator"),
        .init(words: "Somebody", instead: "who acts: client, worker, Redis, operator"),
        .init(words: "anybody", instead: "\"any client\", \"any peer\""),
        .init(words: "Anybody", instead: "\"any client\", \"any peer\""),
    ]

    /// Targets whose comments are free of them; add one when it is.
    static let plainTargets: Set<String> = [
        "Gate", "Limits", "Redis", "Telemetry", "System", "Threads", "Transport", "Wire", "Credentials", "Settings", "Fetch", "Mail",
        "Issuers", "HTTP", "Proxy", "Accounts", "Contracts", "Storage", "Admin", "Cluster", "tollgate",
    ]

    /// Also the tests of such a target, in `Tests/NameTests`.
    static func bans(_ file: TreeFile) -> Bool {
        plainTargets.contains(file.target) || file.target.hasSuffix("Tests") && plainTargets.contains(String(file.target.dropLast(5)))
    }
}
