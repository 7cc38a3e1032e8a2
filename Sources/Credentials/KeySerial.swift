import Synchronization
import Wire

/// Process-wide serial numbers of verification keys, so that a cache entry names the key that verified it in four bytes.
///
/// A serial is never reused: a key that comes back after a rotation gets its old serial, and a new key never gets another
/// key's. The table keeps 32 bytes for each key ever loaded; only trusted issuers' key sets add to it.
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
