import Wire

/// A connection's scripts and their SHA-1 digests, as the server reported them.
struct LoadedScripts: ~Copyable {
    private struct Loaded {
        /// SHA-1 of the source in hexadecimal, as the server computed it; empty before the first load.
        var sha: [UInt8] = []
        /// Whether SCRIPT LOAD is in flight.
        var isLoading = false
    }

    private let scripts: [RedisScript]
    private var loaded: [Loaded]

    init(_ scripts: RedisScripts) {
        self.scripts = scripts.scripts
        loaded = scripts.scripts.map { _ in Loaded() }
    }

    var ids: [RedisScriptID] { scripts.indices.map { RedisScriptID(index: UInt8($0)) } }

    func name(_ id: RedisScriptID) -> String { scripts[Int(id.index)].name }
    func source(_ id: RedisScriptID) -> String { scripts[Int(id.index)].source }

    /// Marks a script as loading; false if it is loading already.
    mutating func begin(_ id: RedisScriptID) -> Bool {
        defer { loaded[Int(id.index)].isLoading = true }
        return !loaded[Int(id.index)].isLoading
    }

    /// Stores the digest of a SCRIPT LOAD reply; false if it is not a SHA-1.
    mutating func learn(_ id: RedisScriptID, from reader: borrowing RedisReplyReader) -> Bool {
        let sha = reader.reply.bytes(0).array
        guard sha.count == 40 else { return false }
        loaded[Int(id.index)].sha = sha
        return true
    }

    /// SCRIPT LOAD was answered, with success or an error.
    mutating func end(_ id: RedisScriptID) { loaded[Int(id.index)].isLoading = false }

    /// The connection was lost; nothing is loading.
    mutating func interrupt() {
        for index in loaded.indices { loaded[index].isLoading = false }
    }

    /// Appends `call` as EVALSHA. The script `id` must have been loaded once.
    func append(_ call: borrowing RedisCall, of id: RedisScriptID, to out: inout ByteBuffer) {
        call.write(sha: loaded[Int(id.index)].sha, to: &out)
    }
}
