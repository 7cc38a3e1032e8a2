internal import Settings
internal import Transport

/// TLS contexts for https upstreams: one for those with the same authorities, certificate and protocol. A context is kept while its files
/// are unchanged, because idle connections and the health of addresses belong to it.
struct AuthorityContexts: Sendable {
    struct Key: Hashable {
        fileprivate let authorities: String?
        fileprivate let pair: TLSCertificatePair?
        fileprivate let speaksHTTP2: Bool

        init(_ upstream: UpstreamDeclaration) {
            authorities = upstream.authorityFile
            pair = upstream.pair
            speaksHTTP2 = upstream.speaksHTTP2
        }

        fileprivate var files: [String] { [authorities, pair?.certificate, pair?.key].compactMap(\.self) }

        fileprivate func context() throws(TLSFault) -> TLSClientContext {
            try TLSClientContext(authorityFile: authorities, pair: pair, protocols: speaksHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"])
        }
    }

    private var entries: [Key: WatchedFiles<TLSClientContext>] = [:]

    init() {}

    /// The contexts that these upstreams need, those of `earlier` where no file has changed.
    init(_ upstreams: [UpstreamDeclaration], earlier: AuthorityContexts = AuthorityContexts()) throws(TLSFault) {
        for key in Set(upstreams.filter { $0.bases.contains(where: \.isTLS) }.map(Key.init)) {
            if let kept = earlier.entries[key], kept.isCurrent {
                entries[key] = kept
            } else {
                entries[key] = try WatchedFiles(key.files) { () throws(TLSFault) in try key.context() }
            }
        }
    }

    subscript(_ upstream: UpstreamDeclaration) -> TLSClientContext? { entries[Key(upstream)]?.value }

    /// Why files that are there now are not used.
    var faults: [String] { entries.values.compactMap(\.fault).sorted() }

    /// Reads the files again that have changed. Returns the keys with another context, and the faults that are new.
    mutating func lookAgain() -> (changed: Set<Key>, faults: [String]) {
        var (changed, faults): (Set<Key>, [String]) = ([], [])
        for key in entries.keys {
            let found = entries[key]?.lookAgain(key.context)
            if found?.isNew == true { changed.insert(key) }
            if let fault = found?.fault { faults.append(fault) }
        }
        return (changed, faults)
    }
}

extension UpstreamDeclaration {
    /// The certificate that the upstream is shown.
    var pair: TLSCertificatePair? {
        guard let clientCertificate, let clientKey else { return nil }
        return TLSCertificatePair(certificate: clientCertificate, key: clientKey)
    }
}
