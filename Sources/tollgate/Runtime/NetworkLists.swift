internal import Gate
internal import Settings
internal import System
internal import Wire

/// The lists of networks of a configuration, with what their files have.
struct NetworkLists: Sendable {
    private var files: [String: WatchedFiles<[CIDR]>] = [:]
    private(set) var sets: [NetworkList: NetworkSet] = [:]

    init() {}

    /// Reads each file, unless `earlier` has it as it is now.
    init(_ settings: Configuration, earlier: NetworkLists = NetworkLists()) throws(NetworkFileFault) {
        let lists = Set(settings.networkLists.map(\.list))
        for path in lists.flatMap(\.files) where files[path] == nil {
            if let known = earlier.files[path], known.isCurrent {
                files[path] = known
            } else {
                files[path] = try WatchedFiles([path]) { () throws(NetworkFileFault) in try Self.read(path) }
            }
        }
        for list in lists { sets[list] = set(list) }
    }

    private func set(_ list: NetworkList) -> NetworkSet {
        NetworkSet(list.networks + list.files.flatMap { files[$0]?.value ?? [] })
    }

    static func read(_ path: String) throws(NetworkFileFault) -> [CIDR] {
        do {
            return try NetworkFile.parse(try FileBytes.read(path, limit: NetworkFile.maxBytes))
        } catch let fault as ParseError {
            throw NetworkFileFault(description: "\(path): \(fault.text)")
        } catch {
            throw NetworkFileFault(description: "\(error)")
        }
    }

    /// The faults of the files as they are now.
    var faults: [String] { files.values.compactMap(\.fault).sorted() }

    /// Reads the files again that have changed. Returns those that have other networks now, and the faults that are new.
    mutating func lookAgain() -> (changed: [String], faults: [String]) {
        var (changed, faults): ([String], [String]) = ([], [])
        for path in files.keys.sorted() {
            let found = files[path]?.lookAgain { try Self.read(path) }
            if found?.isNew == true { changed.append(path) }
            if let fault = found?.fault { faults.append(fault) }
        }
        for list in sets.keys where list.files.contains(where: changed.contains) { sets[list] = set(list) }
        return (changed, faults)
    }
}

/// Why a file of networks cannot be used.
struct NetworkFileFault: Error, CustomStringConvertible {
    let description: String
}
