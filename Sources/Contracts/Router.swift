import Accounts
import Gate
package import HTTP

/// Brings a request that the gate let through to the endpoint it is for, and wraps what is refused there in the contract's
/// envelope. Any thread.
package struct Router: Sendable {
    /// Told of an error that no contract foresees: ours, and never a client's.
    package typealias Tell = @Sendable (_ endpoint: String, _ error: String) -> Void
    package typealias Handler = @Sendable (LocalRequest) async -> LocalResponse

    private let handlers: [Handler]

    package init(_ services: ContractServices, tell: @escaping Tell) {
        handlers = Catalogue.handlers(services, tell)
    }

    /// The answer of the endpoint that the policy numbers `endpoint`.
    package func answer(_ endpoint: UInt16, _ request: LocalRequest) async -> LocalResponse {
        await handlers[Int(endpoint - Catalogue.firstNumber)](request)
    }

    static func handler<Contract: ClientContract>(
        _ contract: Contract, _ endpoint: Contract.Endpoint, _ tell: @escaping Tell
    ) -> Handler {
        let name = "\(Contract.id.name)-\(endpoint.rawValue)"
        return { request in
            do {
                return try await contract.answer(endpoint, ContractRequest(request))
            } catch {
                let failure = failure(error, contract, endpoint) { tell(name, $0) }
                return failure.response(in: Contract.dialect, requestID: request.requestID)
            }
        }
    }

    private static func failure<Contract: ClientContract>(
        _ error: any Error, _ contract: Contract, _ endpoint: Contract.Endpoint, _ tell: (String) -> Void
    ) -> Failure {
        switch error {
        case let failure as Failure: return failure
        case let fault as RequestObject.Fault: return .malformed(fault.message, in: Contract.dialect)
        case let error as AccountError: return contract.failure(error, at: endpoint)
        default:
            tell("\(error)")
            return Failure(.internalError, in: Contract.dialect)
        }
    }
}
