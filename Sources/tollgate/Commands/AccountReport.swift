internal import Accounts
internal import Admin
internal import Wire

extension AccountView {
    init(_ account: Account, _ accounts: OfflineAccounts) {
        self.init(account, tiers: accounts.tiers, graceSeconds: accounts.tierGraceSeconds, now: accounts.now)
    }

    /// The JSON output of a command that has changed the account.
    func report() -> CommandResult {
        .json { json in
            json.beginObject()
            write(&json)
            json.endObject()
        }
    }
}

extension TierChoice {
    /// The tier and `--until` of a command line.
    init(_ name: String, _ arguments: Arguments) throws(UsageFault) {
        do throws(Fault) {
            try self.init(name, until: arguments.value("until"))
        } catch {
            throw UsageFault(message: error.message(end: "--until"), command: arguments.command)
        }
    }

    func kept(_ accounts: OfflineAccounts, label: String = "") throws(AccountCommandFault) -> String? {
        do throws(Fault) {
            return try kept(accounts.tiers, now: accounts.now)
        } catch {
            throw AccountCommandFault(message: error.message(end: "--until", tier: label), exitCode: 2)
        }
    }
}
