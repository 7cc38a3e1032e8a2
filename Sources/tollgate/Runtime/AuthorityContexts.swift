internal import Settings
internal import Transport

/// TLS contexts for https upstreams: one for each file of authorities, and one for the system's. A context is kept while
/// its file is unchanged, because idle connections and the health of addresses belong to it.
struct AuthorityContexts: Sendable {
    private struct Entry {
        let context: TLSClientContext
        let stamp: FileStamp?
    }

    private var entries: [String?: Entry] = [:]

    init() {}

    /// The contexts that these upstreams need, those of `earlier` where the file has not changed.
    init(_ upstreams: [UpstreamDeclaration], earlier: AuthorityContexts = AuthorityContexts()) throws(TLSFault) {
        for upstream in upstreams where upstream.bases.contains(where: \.isTLS) {
            let file = upstream.authorityFile
            let stamp = file.flatMap(FileStamp.init(of:))
            if let kept = earlier.entries[file], kept.stamp == stamp {
                entries[file] = kept
            } else if entries[file] == nil {
                entries[file] = Entry(context: try TLSClientContext(authorityFile: file), stamp: stamp)
            }
        }
    }

    subscript(_ upstream: UpstreamDeclaration) -> TLSClientContext? { entries[upstream.authorityFile]?.context }
}
