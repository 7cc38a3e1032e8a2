import COpenSSL
package import Wire

/// One-time passwords by the time (RFC 6238), as authenticator apps make them: HMAC-SHA-1, steps of 30 seconds, six digits.
package enum OneTimePassword {
    package static let secretBytes = 20
    package static let stepSeconds: Int64 = 30

    /// The code of a step, which is counted from 1970.
    package static func code(of secret: [UInt8], step: Int64) -> String {
        var message = ByteBuffer()
        message.append(highBytes: UInt64(clamping: step), count: 8)
        let (text, key) = (message.readable.array, secret)
        var mac = [UInt8](repeating: 0, count: 20)
        var count: UInt32 = 0
        let made = unsafe HMAC(EVP_sha1(), key, Int32(key.count), text, text.count, &mac, &count)
        precondition(unsafe made != nil && count == 20, "OpenSSL could not make an HMAC")
        let start = Int(mac[19] & 15)
        let number = mac[start..<start + 4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) } & 0x7FFF_FFFF
        let digits = String(number % 1_000_000)
        return String(repeating: "0", count: 6 - digits.count) + digits
    }

    /// The step whose code this is: that of `now`, or one beside it; nil for none. Takes as long for each code of six bytes.
    package static func step(of code: [UInt8], secret: [UInt8], at now: WallTime) -> Int64? {
        let present = now.seconds / stepSeconds
        var found: Int64?
        for step in present - 1...present + 1 {
            let due = Array(Self.code(of: secret, step: step).utf8)
            if Digest.constantTimeEquals(code.rawBytes, due.rawBytes) { found = step }
        }
        return found
    }

    /// The text by which apps take a secret: base32 (RFC 4648 §6) of whole groups of five bytes, without padding.
    package static func base32(_ bytes: [UInt8]) -> String {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".utf8)
        var (text, bits, count): ([UInt8], UInt32, UInt32) = ([], 0, 0)
        for byte in bytes {
            (bits, count) = (bits << 8 | UInt32(byte), count + 8)
            while count >= 5 {
                count -= 5
                text.append(letters[Int(bits >> count & 31)])
            }
            bits &= 1 << count - 1
        }
        return String(decoding: text, as: UTF8.self)
    }
}
