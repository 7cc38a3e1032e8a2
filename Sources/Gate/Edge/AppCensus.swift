package import Wire

/// How often each version of an app was seen on routes with `app=`, and by about how many users: the counts of one worker.
///
/// Its size is fixed. A client may bring `shareOfOne` versions a day, so one that makes versions up fills no more than its share. Where there
/// is no room, a new version takes the place of the one with the fewest requests that only one client has sent. Everything else is counted
/// under `other`.
package struct AppCensus: Sendable {
    static let capacity = 256
    static let shareOfOne = 8

    package enum Version: Hashable, Sendable {
        case numbers(AppVersion)
        /// The request has no version.
        case none
        /// Versions without a place.
        case other
    }

    /// Counts since they were last taken.
    package struct Tally: Sendable {
        package var day: Int64
        /// The name of the gate; nil if none is for the platform.
        package var gate: String?
        package var version: Version
        package var requests: UInt64
        package var users: UserSketch
    }

    private struct Place {
        let gate: UInt8
        let version: Version
        /// The client that brought it, and whether it is the only one.
        let first: UInt64
        var isShared = false
        /// Of the day, and of these since they were last taken.
        var requests: UInt64 = 0
        var untaken: UInt64 = 0
    }

    private var gates: [String] = []
    private var day: Int64 = 0
    /// The identity of each place, which is looked through for each request.
    private var ids: [UInt64] = []
    private var places: [Place] = []
    /// The sketch of each place, one behind the other.
    private var registers: [UInt8] = []
    /// Tallies of a day, or of gates, that are over.
    private var finished: [Tally] = []

    package init() {}

    /// Other gates are in force.
    package mutating func adopt(_ gates: [VersionGate]) {
        let names = gates.map(\.name)
        guard names != self.gates else { return }
        finish()
        self.gates = names
    }

    /// Counts a request of `client`, which is a hash of its user or address. `id` is a hash of the gate and the version.
    mutating func count(gate: UInt8, _ version: Version, id: UInt64, client: UInt64, at now: WallTime) {
        let today = now.seconds / 86_400
        if today != day {
            finish()
            day = today
        }
        var index = 0
        while index < ids.count, ids[index] != id { index += 1 }
        if index == ids.count { index = place(gate, version, id, client) }
        if places[index].first != client { places[index].isShared = true }
        places[index].requests &+= 1
        places[index].untaken &+= 1
        let (register, rank) = UserSketch.place(of: client)
        let offset = index * UserSketch.size + register
        if registers[offset] < rank { registers[offset] = rank }
    }

    /// The place of a version that has none yet; that of `other` if it gets none.
    private mutating func place(_ gate: UInt8, _ version: Version, _ id: UInt64, _ client: UInt64) -> Int {
        guard case .numbers = version else { return append(Place(gate: gate, version: version, first: client), id) }
        var (own, versions, least) = (0, 0, -1)
        for (index, place) in places.enumerated() {
            guard case .numbers = place.version else { continue }
            versions += 1
            if place.first == client { own += 1 }
            guard !place.isShared else { continue }
            if least < 0 || place.requests < places[least].requests { least = index }
        }
        guard own < Self.shareOfOne else { return otherPlace(gate, client) }
        if versions < Self.capacity { return append(Place(gate: gate, version: version, first: client), id) }
        guard least >= 0 else { return otherPlace(gate, client) }
        let other = otherPlace(places[least].gate, places[least].first)
        places[other].untaken &+= places[least].untaken
        ids[least] = id
        places[least] = Place(gate: gate, version: version, first: client)
        for offset in least * UserSketch.size..<(least + 1) * UserSketch.size { registers[offset] = 0 }
        return least
    }

    private mutating func otherPlace(_ gate: UInt8, _ client: UInt64) -> Int {
        places.firstIndex { $0.gate == gate && $0.version == .other }
            ?? append(Place(gate: gate, version: .other, first: client), ~UInt64(gate))
    }

    private mutating func append(_ place: Place, _ id: UInt64) -> Int {
        if places.isEmpty {
            let most = Self.capacity + 2 * (VersionGate.capacity + 1)
            ids.reserveCapacity(most)
            places.reserveCapacity(most)
            registers.reserveCapacity(most * UserSketch.size)
        }
        ids.append(id)
        places.append(place)
        registers.append(contentsOf: repeatElement(0, count: UserSketch.size))
        return places.count - 1
    }

    private func tally(_ index: Int) -> Tally? {
        guard places[index].untaken > 0 else { return nil }
        let place = places[index], start = index * UserSketch.size
        return Tally(
            day: day, gate: gates.indices.contains(Int(place.gate)) ? gates[Int(place.gate)] : nil, version: place.version,
            requests: place.untaken, users: UserSketch(Array(registers[start..<start + UserSketch.size])) ?? UserSketch())
    }

    /// Ends the day, or the gates.
    private mutating func finish() {
        finished += places.indices.compactMap(tally)
        ids.removeAll(keepingCapacity: true)
        places.removeAll(keepingCapacity: true)
        registers.removeAll(keepingCapacity: true)
    }

    /// The counts since the last time, with all users of the day.
    package mutating func take() -> [Tally] {
        var all: [Tally] = []
        swap(&all, &finished)
        for index in places.indices {
            if let tally = tally(index) { all.append(tally) }
            places[index].untaken = 0
        }
        return all
    }
}

extension Admission {
    /// Counts the app of a request that a route with `app=` has decided about.
    package func count(_ decision: borrowing Decision, in census: inout AppCensus, at now: WallTime) {
        guard let gate = decision.appGate else { return }
        let hash = policy.appHash
        let user = decision.userID
        let client =
            user.isEmpty
            ? LimitSubject.address(decision.client.address, hash).low
            : hash.hash128(user, domain: UInt64(truncatingIfNeeded: decision.identity?.issuerIndex ?? -1)).low
        guard let version = decision.appVersion else {
            return census.count(gate: gate, .none, id: UInt64(gate), client: client, at: now)
        }
        census.count(gate: gate, .numbers(version), id: version.hash(hash, gate: gate), client: client, at: now)
    }
}
