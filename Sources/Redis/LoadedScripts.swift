import Wire

/// What a connection knows of its scripts: their names inside the server, learned from it, and how a call of each begins.
struct LoadedScripts {
    private struct Loaded {
        /// The SHA-1 of the source as the server computed it, in hexadecimal; empty before it was asked.
        var sha: [UInt8] = []
        /// What a call with `keys` keys and `arguments` arguments begins with; most scripts are always called with as many.
        var head: [UInt8] = []
        var keys = -1
        var arguments = -1
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
        if sha != loaded[Int(id.index)].sha {
            loaded[Int(id.index)].sha = sha
            loaded[Int(id.index)].keys = -1
        }
        return true
    }

    /// An answer to loading it came, of whatever kind.
    mutating func end(_ id: RedisScriptID) { loaded[Int(id.index)].isLoading = false }

    /// The connection is lost: nothing is being loaded.
    mutating func interrupt() {
        for index in loaded.indices { loaded[index].isLoading = false }
    }

    /// Appends `call`, of the script `id`, which must have been loaded once, as the server reads it.
    mutating func append(_ call: borrowing RedisCall, of id: RedisScriptID, to out: inout ByteBuffer) {
        let index = Int(id.index)
        if loaded[index].keys != call.keys || loaded[index].arguments != call.arguments.count {
            loaded[index].head = RedisCommandFormat.callHead(sha: loaded[index].sha, keys: call.keys, arguments: call.arguments.count)
            loaded[index].keys = call.keys
            loaded[index].arguments = call.arguments.count
        }
        out.append(loaded[index].head)
        out.append(call.arguments.bytes.readable)
    }
}
