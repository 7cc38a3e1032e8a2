extension Configuration {
    /// Keeps the running values of settings that need a restart; returns the names of those that differed.
    package mutating func keepUnchangeable(of running: Configuration) -> [String] {
        var names: [String] = []
        for setting in Setting.all where setting.needsRestart && !setting.reader.isSame(self, running) {
            setting.reader.keep(&self, running)
            showEffective(setting, of: running)
            names.append(setting.name)
        }
        // TLS listeners are kept, so they need a certificate even if the new file names none.
        if !tlsListeners.isEmpty, tlsPairs.isEmpty { tlsPairs = running.tlsPairs }
        return names
    }

    /// The names of settings that were changed in env files without effect, because the process environment sets them, too.
    /// Values that were ineffective before the reload are not reported again.
    package mutating func keepOverridden(of running: Configuration) -> [String] {
        let names = overridden.filter { running.overridden[$0.key] != $0.value }.keys.sorted()
        overridden = running.overridden
        return names
    }
}
