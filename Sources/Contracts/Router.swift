import Accounts
import Gate
package import HTTP
internal import Wire

/// Brings a request that the gate let through to the endpoint it is for, and wraps what is refused there in the endpoint's
/// envelope. Any thread.
package struct Router: Sendable {
    /// Told of an error that no endpoint foresees: ours, and never a client's.
    package typealias Tell = @Sendable (_ endpoint: String, _ error: String) -> Void
    package typealias Handler = @Sendable (LocalRequest) async -> LocalResponse

    private let handlers: [Handler]

    package init(_ services: ContractServices, page: WebPage, tell: @escaping Tell) {
        handlers = Catalogue.handlers(services, page, tell)
    }

    /// The answer of the endpoint that the policy numbers `endpoint`.
    package func answer(_ endpoint: UInt16, _ request: LocalRequest) async -> LocalResponse {
        await handlers[Int(endpoint - Catalogue.firstNumber)](request)
    }

    static func handler<Interface: AccountInterface>(
        _ interface: Interface, _ endpoint: Interface.Endpoint, _ tell: @escaping Tell
    ) -> Handler {
        let name = "\(Interface.name)-\(endpoint.rawValue)"
        return { request in
            do {
                return try await interface.answer(endpoint, ContractRequest(request))
            } catch {
                let failure = failure(error, interface, endpoint) { tell(name, $0) }
                return failure.response(in: Interface.dialect, requestID: request.requestID)
            }
        }
    }

    private static func failure<Interface: AccountInterface>(
        _ error: any Error, _ interface: Interface, _ endpoint: Interface.Endpoint, _ tell: (String) -> Void
    ) -> Failure {
        switch error {
        case let failure as Failure: return failure
        case let fault as RequestObject.Fault: return .malformed(fault.message, in: Interface.dialect)
        case let error as AccountError: return interface.failure(error, at: endpoint)
        default:
            tell("\(error)")
            return Failure(.internalError, in: Interface.dialect)
        }
    }
}
