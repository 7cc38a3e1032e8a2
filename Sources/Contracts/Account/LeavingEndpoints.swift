import Accounts
import Gate
import HTTP
import Wire

/// The endpoints by which users delete their accounts, and Apple tells of its users.
extension AccountEndpoints {
    static let leavingRows = [
        row("delete", .delete, "", leave),
        CatalogueEndpoint(owner: .account, name: "notify-apple", dialect: .problem, path: "/notifications/apple", isForServers: true) {
            services, request throws(Failure) in
            try await Self(services, request).takeNotice()
        },
    ]

    /// Erases the account, or closes it until a time. A token of an outside issuer does not delete: its sign-in is not ours.
    private func leave() async throws(Failure) -> LocalResponse {
        let session = try await requireFactor(request, services)
        let end = try await call(await life.leaving.leave(session, caller: request.caller)) { (refused: RecencyRefusal) in
            Failure(refused, in: dialect)
        }
        guard let end else { return LocalResponse(status: 204, contentType: "application/json; charset=utf-8", body: []) }
        return .json(202) { json in
            json.beginObject()
            json.field("erased_at", ISO8601.text(end))
            json.endObject()
        }
    }

    /// Apple repeats what is not answered by 200; what is of no use here is taken, too.
    private func takeNotice() async throws(Failure) -> LocalResponse {
        var payload: String?
        do throws(RequestObject.Fault) { payload = try RequestObject(request.sent.body).text("payload") } catch {
            throw .malformed(error.message, in: dialect)
        }
        guard let payload else { throw .malformed("payload is required", in: dialect) }
        try await call(await life.appleNotices.take(payload, caller: request.caller)) { (refused: NoticeRefusal) in
            switch refused {
            case .notAuthentic: Failure(401, RefusalCode.unauthorized.text.description, "The notification is not authentic.")
            }
        }
        return .json { json in
            json.beginObject()
            json.endObject()
        }
    }
}
