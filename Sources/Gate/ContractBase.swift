import Wire

/// The path below which a contract answers, and its error format.
package struct ContractBase: Sendable {
    /// Begins with a slash and does not end in one.
    let path: [UInt8]
    let dialect: Dialect

    package init(path: String, dialect: Dialect) {
        self.path = Array(path.utf8)
        self.dialect = dialect
    }
}

extension Policy {
    /// The error format of a refusal without a route at the canonical `path`: that of the contract whose base it is below.
    func dialect(at path: RawSpan) -> Dialect {
        let bases = contractBases
        for base in bases {
            let prefix = base.path
            guard path.hasPrefix(prefix.rawBytes) else { continue }
            if path.byteCount == base.path.count || path[base.path.count] == UInt8(ascii: "/") { return base.dialect }
        }
        return dialect
    }
}
