internal import Accounts
internal import Admin
internal import Credentials
internal import Purchases
internal import Settings
internal import System
internal import Wire

extension Command {
    /// Purchases for tests.
    static let testPurchases = [
        Command(
            "purchases test-transaction", "prints a purchase as Apple would sign it, under a root of its own that roots= accepts",
            options: [
                CommandOption("account", "USER", "the account that buys, by id or email", isRequired: true),
                CommandOption("product", "PRODUCT", "the name of a product line, or Apple's product id", isRequired: true),
                CommandOption("bundle", "ID", "the app's bundle id, the first of TOLLGATE_PURCHASES_APPLE by default"),
                CommandOption("expires", "30d", "the time to its end, up to 1000d, or never; 30d by default"),
                CommandOption("environment", "sandbox", "sandbox or production; sandbox by default"),
                CommandOption("refund", nil, "prints the purchase as refunded"),
                CommandOption(
                    "notification", "TYPE[/SUBTYPE]", "prints the body of a notification, such as DID_RENEW or EXPIRED/VOLUNTARY"),
                CommandOption("roots", "DIR", "the folder of root.pem and root.key, which are made if they are missing", isRequired: true),
            ], readsSettings: true
        ) { call throws(UsageFault) in try TestTransactionCommand(call.arguments).run(call) }
    ]
}

/// `tollgate purchases test-transaction`: plays the App Store, so that purchases can be tried without it.
struct TestTransactionCommand {
    let account: String
    let product: String
    /// nil for the first that is configured.
    let bundle: String?
    let environment: StoreEnvironment
    /// nil for what is bought once.
    let lifetimeSeconds: Int64?
    let isRefunded: Bool
    let notification: String?
    let folder: String

    init(_ arguments: Arguments) throws(UsageFault) {
        account = arguments.value("account") ?? ""
        product = arguments.value("product") ?? ""
        bundle = arguments.value("bundle")
        folder = arguments.value("roots") ?? ""
        notification = arguments.value("notification")
        isRefunded = arguments.has("refund")
        let name = arguments.value("environment") ?? "sandbox"
        guard let environment = StoreEnvironment(rawValue: name) else {
            throw UsageFault("--environment \(quoted(name)) is no environment, write sandbox or production")
        }
        self.environment = environment
        let text = arguments.value("expires") ?? "30d"
        guard text != "never" else {
            lifetimeSeconds = nil
            return
        }
        do {
            lifetimeSeconds = Int64(try TypedText.duration(text, 1000...86_400_000_000) / 1000)
        } catch {
            throw UsageFault("--expires \(quoted(text)) \(error.text), or never")
        }
    }

    /// The root is made before the settings are read, which may name its file.
    func run(_ call: CommandCall) -> CommandResult {
        let now = call.now
        do {
            let root = try authority(now.wall)
            let loaded = call.loader.load(now: now.wall)
            guard let configuration = loaded.configuration else { return .refused(loaded.findings) }
            let settings = configuration.settings
            guard let bundle = bundle ?? settings.appleStore?.bundleIDs.first else {
                return .failed("TOLLGATE_PURCHASES_APPLE has no bundle-ids=, set it or write --bundle ID", exitCode: 2)
            }
            let line = settings.products.first { $0.name == product }
            let account = try OfflineAccounts.ask(configuration, at: now) { [account] in try await $0.operator.account(account).id }
            let signer = try root.signer(now: now.wall)
            let purchase = AppleTestPurchase(
                account: account, product: line?.apple.first ?? product, bundle: bundle,
                appAppleID: settings.appleStore?.appAppleID.map { Int64($0) }, environment: environment,
                expiresAt: lifetimeSeconds.map { WallTime(seconds: now.wall.seconds + $0) }, isRefunded: isRefunded, now: now.wall)
            guard let notification else {
                let transaction = try purchase.transaction(signer)
                return call.json ? .json { Self.write(transaction, &$0) } : CommandResult(output: transaction + "\n")
            }
            let id = SecureRandom.bytes(16)
            let random = (id.rawBytes.load64(0), id.rawBytes.load64(8))
            return CommandResult(output: try purchase.notification(notification, id: UUID(random: random), signer) + "\n")
        } catch let fault as AccountCommandFault {
            return .failed(fault.message, exitCode: fault.exitCode)
        } catch {
            return .failed("\(error)")
        }
    }

    /// The body of `POST /purchases/apple`.
    private static func write(_ transaction: String, _ json: inout JSONWriter) {
        json.beginObject()
        json.field("transaction", transaction)
        json.endObject()
    }

    /// The root of the folder, or a new one.
    private func authority(_ now: WallTime) throws -> StoreTestAuthority {
        let (file, keyFile) = (folder + "/root.pem", folder + "/root.key")
        if (try? FileBytes.stamp(file)) != nil {  // Without a root, or with one that cannot be reached, one is made, or fails to be.
            let (certificate, key) = (try FileBytes.read(file, limit: 1 << 16), try FileBytes.read(keyFile, limit: 1 << 16))
            return try StoreTestAuthority.read(certificate.rawBytes, key: key.rawBytes)
        }
        let made = try StoreTestAuthority.make(now: now)
        try FileBytes.makeDirectory(folder)
        try FileBytes.write(try made.key.pem(), to: keyFile)
        try FileBytes.write(Array(made.pem.utf8), to: file, mode: 0o644)
        return made
    }
}
