package import Wire

/// A list of revoked certificates (CRL), as it was read.
package struct TLSRevocationList: Sendable {
    let file: String
    /// The name of its CA.
    let issuer: String
    let begins: WallTime
    let ends: WallTime
    /// Whether the CA of that name is configured, and its key did not sign the list.
    let hasWrongSignature: Bool

    /// Whether it holds at `now`, as far as time goes.
    private func isInTime(_ now: WallTime) -> Bool { begins <= now && now < ends }

    /// Sentences about the CAs all of whose certificates are refused at `now`, as their list cannot be used.
    package static func faults(of lists: [Self], now: WallTime) -> [String] {
        Dictionary(grouping: lists, by: \.issuer).sorted { $0.key < $1.key }.compactMap { _, lists in
            // OpenSSL uses one list of each CA: the latest of those in time.
            let inTime = lists.filter { $0.isInTime(now) }
            return (inTime.isEmpty ? lists : inTime).max { $0.begins < $1.begins }?.fault(now)
        }
    }

    private func fault(_ now: WallTime) -> String? {
        let reason: String
        if hasWrongSignature {
            reason = "in \(file) is not signed by the key of that CA"
        } else if begins > now {
            reason = "begins at \(ISO8601.text(begins))"
        } else if ends <= now {
            reason = "ended at \(ISO8601.text(ends))"
        } else {
            return nil
        }
        return "the list of revoked certificates of \(issuer) \(reason), so no client certificate of it passes"
    }
}
