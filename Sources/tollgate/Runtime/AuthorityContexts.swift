internal import Settings
internal import System
internal import Transport

/// TLS contexts for https upstreams: one for each file of authorities, and one for the system's; others for HTTP/2. A context is kept while
/// its file is unchanged, because idle connections and the health of addresses belong to it.
struct AuthorityContexts: Sendable {
    private struct Key: Hashable {
        let file: String?
        let speaksHTTP2: Bool

        init(_ upstream: UpstreamDeclaration) {
            file = upstream.authorityFile
            speaksHTTP2 = upstream.speaksHTTP2
        }
    }

    private struct Entry {
        let context: TLSClientContext
        let stamp: FileStamp?
    }

    private var entries: [Key: Entry] = [:]

    init() {}

    /// The contexts that these upstreams need, those of `earlier` where the file has not changed.
    init(_ upstreams: [UpstreamDeclaration], earlier: AuthorityContexts = AuthorityContexts()) throws(TLSFault) {
        for upstream in upstreams where upstream.bases.contains(where: \.isTLS) {
            let key = Key(upstream)
            let stamp = key.file.flatMap(FileStamp.init(of:))
            if let kept = earlier.entries[key], kept.stamp == stamp {
                entries[key] = kept
            } else if entries[key] == nil {
                let protocols = key.speaksHTTP2 ? ["h2", "http/1.1"] : ["http/1.1"]
                entries[key] = Entry(context: try TLSClientContext(authorityFile: key.file, protocols: protocols), stamp: stamp)
            }
        }
    }

    subscript(_ upstream: UpstreamDeclaration) -> TLSClientContext? { entries[Key(upstream)]?.context }
}
