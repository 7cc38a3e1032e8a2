package import Credentials
package import Storage

/// Where the gateway's own keys and those of outside issuers come from.
package struct IssuersPlan: Sendable {
    /// The folder of own keys and of kept key sets.
    package var dataDirectory: String
    /// Signs own tokens in place of generated keys.
    package var ownSecret: [UInt8]?
    /// What a newly generated key is for.
    package var algorithm: SigningAlgorithm
    /// The database in which gateways share their keys; nil where this one keeps them to itself.
    package var sharing: KeySharing?
    /// In the order of the configuration.
    package var outside: [KeyHolder]

    package init(
        dataDirectory: String, ownSecret: [UInt8]?, algorithm: SigningAlgorithm, sharing: KeySharing?, outside: [KeyHolder]
    ) {
        self.dataDirectory = dataDirectory
        self.ownSecret = ownSecret
        self.algorithm = algorithm
        self.sharing = sharing
        self.outside = outside
    }
}

/// A database that several gateways share, and the secret that seals what they keep there.
package struct KeySharing: Sendable {
    package var location: StoreLocation
    package var secret: [UInt8]

    package init(location: StoreLocation, secret: [UInt8]) {
        self.location = location
        self.secret = secret
    }
}

/// An outside issuer or a provider, and where its keys are.
package struct KeyHolder: Sendable {
    package var name: String
    package var source: KeySource
    package var algorithms: AlgorithmSet

    package init(name: String, source: KeySource, algorithms: AlgorithmSet) {
        self.name = name
        self.source = source
        self.algorithms = algorithms
    }
}
