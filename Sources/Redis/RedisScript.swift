/// A Lua script for EVALSHA.
package struct RedisScript: Equatable, Sendable {
    /// For log lines.
    package let name: String
    package let source: String

    package init(name: String, source: String) {
        self.name = name
        self.source = source
    }
}

/// Index of a script in a `RedisScripts`.
package struct RedisScriptID: Equatable, Sendable {
    let index: UInt8
}

/// Scripts that a connection loads in its greeting, and again if the server loses them.
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
