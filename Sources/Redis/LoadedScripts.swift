import Wire

/// What a connection knows of its scripts: their names inside the server, learned from it.
struct LoadedScripts: ~Copyable {
    private struct Loaded {
        /// The SHA-1 of the source as the server computed it, in hexadecimal; empty before it was asked.
        var sha: [UInt8] = []
        /// Asked for, and the answer has not come.
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

    /// The script is about to be loaded; false if it is being loaded already.
    mutating func begin(_ id: RedisScriptID) -> Bool {
        defer { loaded[Int(id.index)].isLoading = true }
        return !loaded[Int(id.index)].isLoading
    }

    /// Takes over the server's answer to loading it; false if that is no SHA-1.
    mutating func learn(_ id: RedisScriptID, from reader: borrowing RedisReplyReader) -> Bool {
        let sha = reader.reply.bytes(0).array
        guard sha.count == 40 else { return false }
        loaded[Int(id.index)].sha = sha
        return true
    }

    /// An answer to loading it came, of whatever kind.
    mutating func end(_ id: RedisScriptID) { loaded[Int(id.index)].isLoading = false }

    /// The connection is lost: nothing is being loaded.
    mutating func interrupt() {
        for index in loaded.indices { loaded[index].isLoading = false }
    }

    /// Appends `call`, of the script `id`, which must have been loaded once, as the server reads it.
    func append(_ call: borrowing RedisCall, of id: RedisScriptID, to out: inout ByteBuffer) {
        call.write(sha: loaded[Int(id.index)].sha, to: &out)
    }
}
