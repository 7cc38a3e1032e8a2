package import Accounts
package import Credentials
package import HTTP
internal import Wire

/// The admin API: accounts, sessions and the gateway for the operator's programs, JSON below `/admin/api/`.
///
/// Every request needs the admin token as its bearer, one with the operation's scope, or the console's cookie. Wrong tokens are
/// limited by address. A change counts on this gateway at once, and on others as soon as they read the change log.
package struct AdminAPI: Sendable {
    static let path = "/admin/api/"

    package let operations: [AdminOperation]
    let token: @Sendable () -> AdminToken?
    /// The tokens beside the admin token.
    let scopedTokens: @Sendable () -> [ScopedToken]
    private let directory: AccountDirectory
    private var administration: Administration
    private var purchases: PurchaseAdministration
    let plan: @Sendable () -> OperatorPlan
    let limiter: any AttemptLimiter
    let gateway: any AdminGateway
    let live: LiveFeed

    /// `operations`: those beside `AdminOperation.own`.
    package init(
        token: @escaping @Sendable () -> AdminToken?, scopedTokens: @escaping @Sendable () -> [ScopedToken], directory: AccountDirectory,
        administration: Administration, purchases: PurchaseAdministration, plan: @escaping @Sendable () -> OperatorPlan,
        limiter: any AttemptLimiter,
        gateway: any AdminGateway,
        operations: [AdminOperation]
    ) {
        self.operations = AdminOperation.own + operations
        self.token = token
        self.scopedTokens = scopedTokens
        self.directory = directory
        self.administration = administration
        self.purchases = purchases
        self.plan = plan
        self.limiter = limiter
        self.gateway = gateway
        live = LiveFeed(gateway)
    }

    func now() -> WallTime { gateway.time }

    /// The accounts, as the caller changes them.
    var `operator`: Operator {
        Operator(directory: directory, administration: administration, purchases: purchases, plan: plan(), now: now())
    }

    package func answer(_ request: LocalRequest) async -> LocalResponse {
        do {
            return try await perform(request)
        } catch let refusal as AdminRefusal {
            return refusal.response(request.requestID)
        } catch let fault as RequestObject.Fault {
            return AdminRefusal(400, "BAD_REQUEST", fault.message).response(request.requestID)
        } catch let fault as TierChoice.Fault {
            return AdminRefusal(.tier(fault)).response(request.requestID)
        } catch let refusal as OperatorRefusal {
            return AdminRefusal(refusal).response(request.requestID)
        } catch let error as AccountError<AdministrationRefusal> {
            return AdminRefusal(error).response(request.requestID)
        } catch let error as AccountError<InquiryRefusal> {
            return AdminRefusal(error).response(request.requestID)
        } catch let failure as AccountFailure {
            return AdminRefusal(failure).response(request.requestID)
        } catch {
            return AdminRefusal(500, "INTERNAL_ERROR", "The gateway failed").response(request.requestID)
        }
    }

    /// Proof first, so that a stranger cannot tell which paths there are.
    private func perform(_ request: LocalRequest) async throws -> LocalResponse {
        let found = Result { () throws(AdminRefusal) in try AdminOperation.find(request, in: operations) }
        var actor = AdminActor.none
        switch found {
        case .success(let match) where match.operation.access == .open: break
        case .success, .failure: actor = try await authenticate(request)
        }
        let (operation, arguments) = try found.get()
        try actor.mayUse(operation)
        let query = try AdminQuery(request.query, knows: operation.query.map(\.name))
        var api = self
        if let author = actor.author {
            api.administration.actor = author
            api.purchases.actor = author
        }
        return try await operation.run(api, AdminCall(request: request, arguments: arguments, query: query, actor: actor))
    }
}
