package import Wire

/// The fields that sign a webhook, as Standard Webhooks has them.
package enum WebhookSignature {
    /// The bytes of a secret: those behind `whsec_` are base64, others count as they are. nil for one that is empty or badly written.
    package static func key(_ secret: [UInt8]) -> [UInt8]? {
        let prefix = Array("whsec_".utf8)
        guard secret.starts(with: prefix) else { return secret.isEmpty ? nil : secret }
        let text = Array(secret[prefix.count...])
        guard let key = Base64.decode(text.rawBytes, isPadded: text.count % 4 == 0), !key.isEmpty else { return nil }
        return key
    }

    /// Lines of a head. The receiver takes a message if one of `keys` has signed it, so that one can be replaced while both are in force.
    package static func fields(id: String, body: [UInt8], keys: [[UInt8]], now: WallTime) -> [String] {
        let signed = Array("\(id).\(now.seconds).".utf8) + body
        let signatures = keys.map { key in
            "v1,\(Base64.encode(Digest.hmacSHA256(signed.rawBytes, key: key.rawBytes).rawBytes, isPadded: true))"
        }
        return ["webhook-id: \(id)", "webhook-timestamp: \(now.seconds)", "webhook-signature: \(signatures.joined(separator: " "))"]
    }
}
