extension Configuration {
    /// Takes over from the running configuration what a reload cannot change; answers the names of the settings in which
    /// this one differed.
    package mutating func keepUnchangeable(of running: Configuration) -> [String] {
        var names: [String] = []
        for setting in Setting.all where setting.needsRestart && !setting.reader.isSame(self, running) {
            setting.reader.keep(&self, running)
            names.append(setting.name)
        }
        // TLS listeners that stay need a certificate although the file has none for them any more.
        if !tlsListeners.isEmpty, tlsPairs.isEmpty { tlsPairs = running.tlsPairs }
        return names
    }

    /// The names of settings whose lines in the env files differ from the running ones and have no effect, for the process
    /// environment sets them too. What was so at the start is no change.
    package mutating func keepOverridden(of running: Configuration) -> [String] {
        let names = overridden.filter { running.overridden[$0.key] != $0.value }.keys.sorted()
        overridden = running.overridden
        return names
    }
}
