internal import Settings
internal import Transport

/// TLS towards https upstreams: one context for each file of authorities, and one for the system's.
///
/// A context is kept for as long as its file stays as it was, because idle connections and what is known of an address
/// hang on it.
struct AuthorityContexts: Sendable {
    private struct Entry {
        let context: TLSClientContext
        let stamp: FileStamp?
    }

    private var entries: [String?: Entry] = [:]

    init() {}

    /// What these upstreams need, with the contexts of `earlier` whose files have not changed.
    init(_ upstreams: [UpstreamDeclaration], earlier: AuthorityContexts = AuthorityContexts()) throws(TLSFault) {
        for upstream in upstreams where upstream.bases.contains(where: \.isTLS) {
            let file = upstream.authorityFile
            let stamp = file.flatMap(Self.stamp)
            if let kept = earlier.entries[file], kept.stamp == stamp {
                entries[file] = kept
            } else if entries[file] == nil {
                entries[file] = Entry(context: try TLSClientContext(authorityFile: file), stamp: stamp)
            }
        }
    }

    subscript(_ upstream: UpstreamDeclaration) -> TLSClientContext? { entries[upstream.authorityFile]?.context }

    /// A file that cannot be looked at has no stamp; reading it says why.
    private static func stamp(_ path: String) -> FileStamp? {
        do {
            return try FileBytes.stamp(path)
        } catch {
            return nil
        }
    }
}
