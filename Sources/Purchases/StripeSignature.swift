internal import Accounts
internal import Credentials
internal import Wire

/// The field `Stripe-Signature`: `t=1492774577,v1=5257a869…,v1=…`. Each `v1` is the HMAC-SHA-256 of time, dot and body in hexadecimal, by one
/// of the secrets that are in force.
enum StripeSignature {
    /// How far its time may lie from ours, in either direction.
    static let toleranceSeconds: Int64 = 300

    /// Throws unless a secret has signed `body`, and did it just now.
    static func verify(_ field: String?, _ body: [UInt8], secrets: [[UInt8]], now: WallTime) throws(StorefrontFault) {
        guard let field, let (time, signatures) = parse(Array(field.utf8)) else { throw .notAuthentic(reason: "signature") }
        let signed = Array("\(time).".utf8) + body
        var isSigned = false
        // With an empty one, anybody could sign.
        for secret in secrets where !secret.isEmpty {
            let expected = hexadecimal(Digest.hmacSHA256(signed.rawBytes, key: secret.rawBytes))
            for signature in signatures where Digest.constantTimeEquals(expected.rawBytes, signature.rawBytes) { isSigned = true }
        }
        guard isSigned else { throw .notAuthentic(reason: "signature") }
        let tolerance = toleranceSeconds * 1_000_000
        let at = WallTime(seconds: time).microseconds
        guard at >= now.microseconds - tolerance, at <= now.microseconds + tolerance else { throw .notAuthentic(reason: "expired") }
    }

    /// Its first `t` and all of its `v1`; nil unless it has both. Other schemes count for nothing.
    private static func parse(_ field: [UInt8]) -> (time: Int64, signatures: [[UInt8]])? {
        var times: [Int64?] = []
        var signatures: [[UInt8]] = []
        for item in field.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            let parts = item.split(separator: UInt8(ascii: "="), maxSplits: 2, omittingEmptySubsequences: false)
            let isTime = parts[0].elementsEqual("t".utf8)
            guard isTime || parts[0].elementsEqual("v1".utf8) else { continue }
            guard parts.count > 1 else { return nil }
            if isTime { times.append(Int64(String(decoding: parts[1], as: UTF8.self))) } else { signatures.append(Array(parts[1])) }
        }
        guard let time = times.first ?? nil, !signatures.isEmpty else { return nil }
        return (time, signatures)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> [UInt8] {
        var hex = ByteBuffer(capacity: 2 * bytes.count)
        for byte in bytes { hex.append(hex: UInt64(byte), digits: 2) }
        return hex.readable.array
    }
}
