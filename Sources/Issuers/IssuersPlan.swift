package import Credentials
package import Storage

/// The plan of keys: the sources of the gateway's own keys and of outside issuers' keys.
package struct IssuersPlan: Sendable {
    /// The folder of own keys and of copies of key sets.
    package var dataDirectory: String
    /// The secret that signs own tokens in place of generated keys; nil for generated keys.
    package var ownSecret: [UInt8]?
    /// The algorithm of newly generated keys.
    package var algorithm: SigningAlgorithm
    /// The database in which gateways share their keys; nil if this gateway keeps them in its data folder.
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

/// The database in which several gateways share their keys, and the secret that seals them there.
package struct KeySharing: Sendable {
    package var location: StoreLocation
    package var secret: [UInt8]

    package init(location: StoreLocation, secret: [UInt8]) {
        self.location = location
        self.secret = secret
    }
}

/// An outside issuer or a provider, and the source of its keys.
package struct KeyHolder: Sendable {
    package var name: String
    package var source: KeySource
    package var algorithms: AlgorithmSet
    /// Whether its keys verify ID tokens at a sign-in, and no bearers.
    package var isProvider: Bool

    package init(name: String, source: KeySource, algorithms: AlgorithmSet, isProvider: Bool = false) {
        self.name = name
        self.source = source
        self.algorithms = algorithms
        self.isProvider = isProvider
    }

    /// The consequence of having no keys, for the log.
    var lack: String { isProvider ? "sign-ins by its ID tokens fail" : "its tokens get 503" }
}
