/// A Lua script that runs inside the server.
package struct RedisScript: Equatable, Sendable {
    /// For people, in faults.
    package let name: String
    package let source: String

    package init(name: String, source: String) {
        self.name = name
        self.source = source
    }
}

/// Names a script of a `RedisScripts`.
package struct RedisScriptID: Equatable, Sendable {
    let index: UInt8
}

/// The scripts that a connection loads before it serves, and again whenever the server has lost them.
package struct RedisScripts: Equatable, Sendable {
    private(set) var scripts: [RedisScript] = []

    package init() {}

    /// Adds a script; at most 100.
    package mutating func register(_ script: RedisScript) -> RedisScriptID {
        precondition(scripts.count < 100)
        scripts.append(script)
        return RedisScriptID(index: UInt8(scripts.count - 1))
    }
}
