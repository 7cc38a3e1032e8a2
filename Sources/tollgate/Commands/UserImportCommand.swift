internal import Accounts
internal import Gate
internal import Settings
internal import System
internal import Wire

/// `tollgate user import`: adds the accounts of another system, one JSON object a line. Each batch is one transaction, so an
/// import that was interrupted is resumed by running it again.
struct UserImportCommand: AccountCommand {
    /// Lines of one transaction: few enough that a running gateway does not wait for long.
    private static let batch = 200

    private let path: String
    /// The trust line of ids that are no UUIDs; nil: the only one.
    private let issuer: String?
    private let json: Bool
    /// See `ProgressLine`.
    private let terminal: (@Sendable (String) -> Void)?

    init(_ arguments: Arguments, terminal: (@Sendable (String) -> Void)?) {
        self.terminal = terminal
        path = arguments.operands[0]
        issuer = arguments.value("issuer")?.lowercased()
        json = arguments.has("json")
    }

    /// The outcome of the whole file.
    private struct Report {
        var made = 0
        var kept = 0
        var refused: [(line: Int, reason: String)] = []
    }

    func run(_ accounts: OfflineAccounts) async throws -> CommandResult {
        let rules = try rules(accounts)
        var report = Report()
        var batch: [(line: Int, account: ImportedAccount)] = []
        var lines = try FileLines(path)
        var line = ByteBuffer()
        var number = 0
        var progress = ProgressLine(terminal, total: lines.size, unit: "accounts")
        defer { progress.end() }
        while try lines.next(into: &line) {
            number += 1
            if Self.isBlank(line.readable) { continue }
            do throws(ImportFault) {
                batch.append((number, try ImportedAccount(line: line.readable, rules)))
            } catch {
                report.refused.append((number, error.message))
            }
            guard batch.count == Self.batch else { continue }
            try await add(&batch, accounts, &report)
            progress.advance(bytes: lines.bytesRead, units: report.made + report.kept + report.refused.count)
        }
        try await add(&batch, accounts, &report)
        // Lines that the store refused come after those of their batch that could not be read.
        report.refused.sort { $0.line < $1.line }
        return json ? describeAsJSON(report) : describe(report)
    }

    private static func isBlank(_ line: RawSpan) -> Bool {
        (0..<line.byteCount).allSatisfy { line[$0] == 0x20 || line[$0] == 0x09 || line[$0] == 0x0D }
    }

    private func rules(_ accounts: OfflineAccounts) throws(AccountCommandFault) -> ImportRules {
        if let issuer, !accounts.issuers.contains(issuer) {
            let known = accounts.issuers.isEmpty ? "there is none" : "they are \(accounts.issuers.joined(separator: ", "))"
            throw AccountCommandFault(message: "--issuer \(quoted(issuer)) is no TOLLGATE_TRUST_… line, \(known)", exitCode: 2)
        }
        let only = accounts.issuers.count == 1 ? accounts.issuers[0] : nil
        // A UUID is the account's id. Where the issuer's subjects are looked for here, it is also an identity there.
        let isLookedFor = only.map { accounts.tierSources[$0] == .account || accounts.accountIssuers.contains($0) } ?? false
        return ImportRules(
            tiers: accounts.tiers.names, issuers: accounts.issuers, idIssuer: issuer ?? only,
            uuidIssuer: issuer ?? (isLookedFor ? only : nil))
    }

    private func add(
        _ batch: inout [(line: Int, account: ImportedAccount)], _ accounts: OfflineAccounts, _ report: inout Report
    ) async throws {
        let verdicts = try await accounts.administration.add(batch.map(\.account))
        for (entry, verdict) in zip(batch, verdicts) {
            switch verdict {
            case .create, .complete: report.made += 1
            case .keep: report.kept += 1
            case .refuse(let refusal): report.refused.append((entry.line, refusal.sentence))
            }
        }
        batch.removeAll(keepingCapacity: true)
    }

    // MARK: the report

    private func describe(_ report: Report) -> CommandResult {
        let name = path == "-" ? "standard input" : path
        let refused = report.refused
        return CommandResult(
            output: "\(report.made) made, \(report.kept) kept, \(refused.count) refused.\n",
            errorOutput: refused.map { "\(name):\($0.line): \($0.reason)\n" }.joined(), exitCode: refused.isEmpty ? 0 : 1)
    }

    private func describeAsJSON(_ report: Report) -> CommandResult {
        .json(exitCode: report.refused.isEmpty ? 0 : 1) { json in
            json.beginObject()
            json.field("made", report.made)
            json.field("kept", report.kept)
            json.array("refused", report.refused) { json, refused in
                json.beginObject()
                json.field("line", refused.line)
                json.field("reason", refused.reason)
                json.endObject()
            }
            json.endObject()
        }
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
