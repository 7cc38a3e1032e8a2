import Wire

/// What a connection knows of its scripts: their names inside the server, learned from it, and how a call of each begins.
struct LoadedScripts {
    private struct Loaded {
        /// The SHA-1 of the source as the server computed it, in hexadecimal; empty before it was asked.
        var sha: [UInt8] = []
        /// What a call with `arguments` arguments begins with; most scripts are always called with as many.
        var head: [UInt8] = []
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
            loaded[Int(id.index)].arguments = -1
        }
        return true
    }

    /// An answer to loading it came, of whatever kind.
    mutating func end(_ id: RedisScriptID) { loaded[Int(id.index)].isLoading = false }

    /// The connection is lost: nothing is being loaded.
    mutating func interrupt() {
        for index in loaded.indices { loaded[index].isLoading = false }
    }

    /// What a call with so many arguments begins with; the script must have been loaded once.
    mutating func head(_ id: RedisScriptID, arguments: Int) -> [UInt8] {
        let index = Int(id.index)
        if loaded[index].arguments != arguments {
            loaded[index].head = RedisCommandFormat.callHead(sha: loaded[index].sha, arguments: arguments)
            loaded[index].arguments = arguments
        }
        return loaded[index].head
    }
}
