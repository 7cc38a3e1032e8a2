package import Credentials

/// The format of refusals, by its number. The policy has the envelope of each.
package struct Dialect: RawRepresentable, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// That of a contract's document, with the contract's number.
    package init(_ contract: ContractID) { rawValue = contract.rawValue }

    /// `application/problem+json` (RFC 9457).
    package static let problem = Self(rawValue: 0)
    /// That of gRPC, for requests of gRPC whatever the route's format is: HTTP 200 and no content, the refusal as `grpc-status` and
    /// `grpc-message` (trailers-only).
    package static let grpc = Self(rawValue: .max)
}

extension Dialect {
    /// The HTTP status of a refusal's answer.
    package func status(of refusal: Refusal) -> Int { self == .grpc ? 200 : Int(refusal.status) }
}
