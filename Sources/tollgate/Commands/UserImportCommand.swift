internal import Accounts
internal import Admin
internal import Gate
internal import Settings
internal import System
internal import Wire

/// `tollgate user import`: adds the accounts of another system, one JSON object a line. Each batch is one transaction, so an
/// import that was interrupted is resumed by running it again.
struct UserImportCommand {
    static let row = Command.overAccounts(
        "user import FILE", "adds the accounts of another system from lines of JSON (- reads standard input); again, it changes nothing",
        options: [CommandOption("issuer", "NAME", "the trust line whose subjects the ids are that are no UUIDs; the only one by default")]
    ) { call in
        { try await UserImportCommand(path: call.operands[0], issuer: call.value("issuer")?.lowercased()).run($0, call) }
    }

    /// Lines of one transaction: few enough that a running gateway does not wait for long.
    private static let batch = 200

    private let path: String
    /// The trust line of ids that are no UUIDs; nil: the only one.
    private let issuer: String?

    private init(path: String, issuer: String?) {
        self.path = path
        self.issuer = issuer
    }

    /// The outcome of the whole file.
    private struct Report: Recorded {
        struct Refused: Recorded {
            let line: Int
            let reason: String

            static let record = Record<Self>([.has("line", \.line), .has("reason", \.reason)])
        }

        var made = 0
        var kept = 0
        var refused: [Refused] = []

        static let record = Record<Self>([.has("made", \.made), .has("kept", \.kept), .has("refused", \.refused)])
    }

    private func run(_ accounts: OfflineAccounts, _ call: CommandCall) async throws -> CommandResult {
        let rules = try rules(accounts)
        var report = Report()
        var batch: [(line: Int, account: ImportedAccount)] = []
        var lines = try FileLines(path)
        var line = ByteBuffer()
        var number = 0
        var progress = ProgressLine(call.terminal, total: lines.size, unit: "accounts")
        defer { progress.end() }
        while try lines.next(into: &line) {
            number += 1
            if Self.isBlank(line.readable) { continue }
            do throws(ImportFault) {
                batch.append((number, try ImportedAccount(line: line.readable, rules)))
            } catch {
                report.refused.append(Report.Refused(line: number, reason: error.message))
            }
            guard batch.count == Self.batch else { continue }
            try await add(&batch, accounts, &report)
            progress.advance(bytes: lines.bytesRead, units: report.made + report.kept + report.refused.count)
        }
        try await add(&batch, accounts, &report)
        // Lines that the store refused come after those of their batch that could not be read.
        report.refused.sort { $0.line < $1.line }
        return describe(report, call)
    }

    private static func isBlank(_ line: RawSpan) -> Bool {
        (0..<line.byteCount).allSatisfy { line[$0] == 0x20 || line[$0] == 0x09 || line[$0] == 0x0D }
    }

    private func rules(_ accounts: OfflineAccounts) throws(AccountCommandFault) -> ImportRules {
        let (trusts, issuers) = (accounts.trusts, accounts.trusts.map(\.name))
        if let issuer, !issuers.contains(issuer) {
            let known = issuers.isEmpty ? "there is none" : "they are \(issuers.joined(separator: ", "))"
            throw AccountCommandFault(message: "--issuer \(quoted(issuer)) is no TOLLGATE_TRUST_… line, \(known)", exitCode: 2)
        }
        let only = trusts.count == 1 ? trusts[0] : nil
        // A UUID is the account's id. Where the issuer's subjects are looked for here, it is also an identity there.
        let isLookedFor = only.map { $0.tierSource == .account || $0.hasAccounts } ?? false
        return ImportRules(
            tiers: accounts.operator.plan.tiers.names, issuers: issuers, providers: accounts.providers,
            idIssuer: issuer ?? only?.name, uuidIssuer: issuer ?? (isLookedFor ? only?.name : nil))
    }

    private func add(
        _ batch: inout [(line: Int, account: ImportedAccount)], _ accounts: OfflineAccounts, _ report: inout Report
    ) async throws {
        let verdicts = try await accounts.operator.administration.add(batch.map(\.account))
        for (entry, verdict) in zip(batch, verdicts) {
            switch verdict {
            case .create, .complete: report.made += 1
            case .keep: report.kept += 1
            case .refuse(let refusal): report.refused.append(Report.Refused(line: entry.line, reason: refusal.sentence))
            }
        }
        batch.removeAll(keepingCapacity: true)
    }

    // MARK: the report

    private func describe(_ report: Report, _ call: CommandCall) -> CommandResult {
        let refused = report.refused
        var result = call.answer(report) { "\(report.made) made, \(report.kept) kept, \(refused.count) refused.\n" }
        let name = path == "-" ? "standard input" : path
        if !call.json { result.errorOutput = refused.map { "\(name):\($0.line): \($0.reason)\n" }.joined() }
        result.exitCode = refused.isEmpty ? 0 : 1
        return result
    }
}

extension ImportRefusal {
    fileprivate var sentence: String {
        switch self {
        case .emailTaken(let user): "the email is of another account, \(user.text)"
        case .identityTaken(let key, let user): "the identity \(key.source.name):\(key.subject) is of another account, \(user.text)"
        }
    }
}
