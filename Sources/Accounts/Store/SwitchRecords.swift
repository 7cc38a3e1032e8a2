package import Wire

/// Live switches. Each change is an entry of the change log, so that every gateway reads them again within a second.
package protocol SwitchRecords: Sendable {
    /// Those that have not ended, in the order of their names.
    func switches() async throws(StoreFault) -> [LiveSwitch]
    /// Sets a switch until a time, if one is given, or removes it with nil. With `after`, only while its version is that one, 0 for a switch
    /// that is not set: then two gateways that act at once do not undo what the other did.
    ///
    /// - Returns: the version of the change; nil if the switch has another version than `after`.
    func set(_ name: String, to value: String?, until: WallTime?, after: Int64?) async throws(StoreFault) -> Int64?
}
