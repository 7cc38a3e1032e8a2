internal import Gate
internal import Redis

/// A setting that only a restart changes, and the part of the configuration that a reload keeps for it.
struct RestartSetting: Sendable {
    let setting: Setting
    /// Whether two configurations agree in it.
    let isSame: @Sendable (Configuration, Configuration) -> Bool
    /// Gives a configuration the value of another.
    let keep: @Sendable (inout Configuration, Configuration) -> Void

    private init<Value: Equatable & Sendable>(_ setting: Setting, _ path: any WritableKeyPath<Configuration, Value> & Sendable) {
        self.setting = setting
        isSame = { $0[keyPath: path] == $1[keyPath: path] }
        keep = { $0[keyPath: path] = $1[keyPath: path] }
    }

    /// Listeners are compared without the lines that declare them.
    private init(listeners setting: Setting, _ path: any WritableKeyPath<Configuration, [ListenerDeclaration]> & Sendable) {
        self.setting = setting
        isSame = { $0[keyPath: path].map(\.text) == $1[keyPath: path].map(\.text) }
        keep = { $0[keyPath: path] = $1[keyPath: path] }
    }

    /// One for each row of the table that needs a restart.
    static let all: [RestartSetting] = [
        RestartSetting(listeners: .listen, \.listeners), RestartSetting(listeners: .listenTLS, \.tlsListeners),
        RestartSetting(listeners: .adminListen, \.adminListeners), RestartSetting(.workers, \.workers),
        RestartSetting(.dataDirectory, \.dataDirectory), RestartSetting(.redisURL, \.redis),
        RestartSetting(.rateLimitFailure, \.rateLimitFailure), RestartSetting(.tokenCache, \.tokenCacheEntries),
        RestartSetting(.databaseURL, \.databaseURL), RestartSetting(.keySecret, \.keySecret),
        RestartSetting(.accessLog, \.accessLog),
    ]
}

extension Configuration {
    /// Takes over from the running configuration what a reload cannot change; answers the names of the settings in which
    /// this one differed.
    mutating func keepUnchangeable(of running: Configuration) -> [String] {
        var names: [String] = []
        for row in RestartSetting.all where !row.isSame(self, running) {
            row.keep(&self, running)
            names.append(row.setting.name)
        }
        // TLS listeners that stay need a certificate although the file has none for them any more.
        if !tlsListeners.isEmpty, tlsPairs.isEmpty { tlsPairs = running.tlsPairs }
        return names
    }

    /// The names of settings whose lines in the env files differ from the running ones and have no effect, for the process
    /// environment sets them too. What was so at the start is no change.
    mutating func keepOverridden(of running: Configuration) -> [String] {
        let names = overridden.filter { running.overridden[$0.key] != $0.value }.keys.sorted()
        overridden = running.overridden
        return names
    }
}
