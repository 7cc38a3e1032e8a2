import Glibc
import System
package import Wire

/// A folder that is gone when the test is over.
package final class TemporaryFolder {
    package let path: String

    package init() throws {
        var template = Array("/tmp/tollgate-test.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw SystemFault("make a folder") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit {
        // Two levels are all that the tests make.
        remove(path)
    }

    private func remove(_ folder: String) {
        for name in Self.names(folder) {
            let inner = "\(folder)/\(name)"
            if unlink(inner) != 0 { remove(inner) }
        }
        rmdir(folder)
    }

    /// Of what is in a folder.
    package static func names(_ folder: String) -> [String] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != "." && name != ".." { names.append(name) }
        }
        return names
    }
}

/// Where a file or folder of the package is.
package func packagePath(_ path: String) -> String { "/" + #filePath.split(separator: "/").dropLast(3).joined(separator: "/") + "/" + path }

/// The whole text of a file of the package.
package func packageFile(_ path: String) throws -> String {
    let bytes = try FileBytes.read(packagePath(path), limit: 1 << 20)
    return bytes.rawBytes.text
}

/// A moment so many seconds after an arbitrary start.
package func moment(_ seconds: UInt64) -> MonotonicTime { MonotonicTime(nanoseconds: (1_000_000 + seconds) * 1_000_000_000) }

/// A JWK Set with one public key, `a`.
package let jwksOfA = Array(#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"a"}]}"#.utf8)

/// A secret as long as HS256 wants it.
package let sharedSecret = Array("0123456789abcdef0123456789abcdef".utf8)

/// A public key with the ROCA fingerprint: its modulus is 65537¹²⁸, which is a power of 65537 modulo every prime.
package let forgeableJWK: String = {
    var number: [UInt8] = [1]
    for _ in 0..<128 {
        var carry = 0
        let (high, low) = (number + [0, 0], [0, 0] + number)
        number = zip(high, low).reversed().map { pair in
            carry = carry >> 8 + Int(pair.0) + Int(pair.1)
            return UInt8(carry & 0xFF)
        }.reversed()
        if carry > 0xFF { number.insert(1, at: 0) }
    }
    return #"{"kty":"RSA","kid":"card","n":"\#(Base64URL.encode(number.rawBytes))","e":"AQAB"}"#
}()
/// Why it is refused.
package let forgeableReason =
    "has the ROCA fingerprint (CVE-2017-15361): its private key can be computed; replace it with a key from OpenSSL or a patched device"
