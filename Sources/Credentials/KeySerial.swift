import Synchronization
import Wire

/// Numbers every distinct key of the process, so that a cached answer can name the key it rests on in four bytes.
///
/// A number is never given out again: a key that returns after a rotation is the same key, and a new one never takes an
/// old one's place. The table keeps 32 bytes for each key ever loaded; only trusted issuers add to it.
enum KeySerial {
    private static let known = Mutex<[[UInt8]: UInt32]>([:])

    /// The serial of the key with this material, algorithms and `kid`. Any thread.
    static func of(identity: [UInt8], algorithms: AlgorithmSet, kid: [UInt8]?) -> UInt32 {
        var description = ByteBuffer(capacity: identity.count + 64)
        description.append(decimal: UInt64(algorithms.rawValue))
        description.append(kid == nil ? UInt8(ascii: "-") : UInt8(ascii: "+"))
        description.append(decimal: UInt64(kid?.count ?? 0))
        description.append(UInt8(ascii: ":"))
        description.append(kid ?? [])
        description.append(identity)
        let fingerprint = Digest.sha256(description.readable)
        return known.withLock { table in
            if let serial = table[fingerprint] { return serial }
            let serial = UInt32(truncatingIfNeeded: table.count + 1)
            table[fingerprint] = serial
            return serial
        }
    }
}
