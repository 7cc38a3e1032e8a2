internal import System

/// A value that some files make, which are read again when they change. Files that cannot be used leave the value before in force.
struct WatchedFiles<Value: Sendable>: Sendable {
    private let paths: [String]
    /// Of the last try; nil for a file that cannot be looked at.
    private var stamps: [FileStamp?]
    private(set) var value: Value
    /// Why the files that are there now are not in force.
    private(set) var fault: String?

    init<Failure>(_ paths: [String], _ read: () throws(Failure) -> Value) throws(Failure) {
        self.paths = paths
        // Before the files: one that changes while it is read is read again.
        stamps = Self.stamps(paths)
        value = try read()
    }

    private static func stamps(_ paths: [String]) -> [FileStamp?] { paths.map(FileStamp.init(of:)) }

    /// Whether the value is that of the files as they are now.
    var isCurrent: Bool { fault == nil && stamps == Self.stamps(paths) }

    /// Reads the files again if one has changed. Answers whether the value is another, and a fault that is new, or
    /// that another change has not mended. Files that could not be used are tried again each time: a pair that is being replaced matches
    /// later, and a lack of descriptors passes.
    mutating func lookAgain(_ read: () throws -> Value) -> (isNew: Bool, fault: String?) {
        let now = Self.stamps(paths)
        let areChanged = now != stamps
        guard areChanged || fault != nil else { return (false, nil) }
        stamps = now
        do {
            value = try read()
            fault = nil
            return (true, nil)
        } catch {
            let (text, before) = ("\(error)", fault)
            fault = text
            return (false, areChanged || text != before ? text : nil)
        }
    }
}
