package import Wire

/// The body of `/metrics`: every family once, with the workers' numbers merged.
package enum Exposition {
    package static func render(
        _ workers: [MetricsSnapshot], _ process: ProcessMetrics, as format: ExpositionFormat = .prometheus, at now: WallTime
    ) -> [UInt8] {
        var writer = ExpositionWriter(format)
        writer.write(process, at: now)
        if let merged = MetricsSnapshot.merged(workers) {
            for family in MetricFamily.allCases { writer.write(family, of: merged) }
        }
        return writer.finish()
    }
}

extension ExpositionWriter {
    /// Omits a series that is zero, unless the family has no labels, or one label whose value is current. A histogram with labels is
    /// omitted while it is empty, as it is 17 lines; and every series of a name that the configuration no longer has.
    mutating func write(_ family: MetricFamily, of snapshot: MetricsSnapshot) {
        let description = family.description
        let shape = snapshot.layout[family]
        let values = description.dimensions.map { $0.values(snapshot.labels) }
        self.family(description.name, type: description.kind.type, help: description.help)
        for series in 0..<shape.seriesCount {
            let cells = snapshot.cells[shape.base + series * shape.width..<shape.base + (series + 1) * shape.width]
            guard description.shows(cells, ofSeries: series, snapshot.labels) else { continue }
            let place = shape.values(ofSeries: series)
            let places = [place.0, place.1, place.2, place.3]
            if description.dimensions.indices.contains(where: { description.dimensions[$0].isFormer(places[$0], snapshot.labels) }) {
                continue
            }
            let labels = description.dimensions.indices.map { (description.dimensions[$0].label, values[$0][places[$0]]) }
            let exemplars = family == .requestDuration ? snapshot.exemplars : Exemplars()
            write(cells, description, labels, exemplars, route: series)
        }
    }

    private mutating func write(
        _ cells: ArraySlice<UInt64>, _ description: FamilyDescription, _ labels: [(String, String)], _ exemplars: Exemplars, route: Int
    ) {
        guard case .histogram(let scale) = description.kind else {
            return sample(description.name, labels, Int64(bitPattern: cells[cells.startIndex]))
        }
        var total: UInt64 = 0
        for (index, bound) in scale.bounds.enumerated() {
            total += cells[cells.startIndex + index]
            let le = bucketBound(Int64(bound), decimals: scale.decimals)
            sample(description.name + "_bucket", labels + [("le", le)], Int64(clamping: total), exemplars[route: route, bucket: index])
        }
        total += cells[cells.endIndex - 2]
        sample(
            description.name + "_bucket", labels + [("le", "+Inf")], Int64(clamping: total),
            exemplars[route: route, bucket: scale.bounds.count])
        sample(description.name + "_sum", labels, Int64(clamping: cells[cells.endIndex - 1]), decimals: scale.decimals)
        sample(description.name + "_count", labels, Int64(clamping: total))
    }
}

extension FamilyDescription {
    fileprivate func shows(_ cells: ArraySlice<UInt64>, ofSeries series: Int, _ labels: MetricLabels) -> Bool {
        let isConfigured = dimensions.count <= 1 && dimensions.allSatisfy { $0.isCurrent(series, labels) }
        switch kind {
        case .lowestGauge: return isConfigured && cells.first != .max
        case .counter, .gauge, .highestGauge: return isConfigured || cells.contains { $0 != 0 }
        case .histogram: return dimensions.isEmpty || cells.contains { $0 != 0 }
        }
    }
}

extension FamilyDescription.Kind {
    /// Prometheus's name.
    var type: StaticString {
        switch self {
        case .counter: "counter"
        case .gauge, .lowestGauge, .highestGauge: "gauge"
        case .histogram: "histogram"
        }
    }
}

// MARK: What the process counts

extension ExpositionWriter {
    mutating func write(_ process: ProcessMetrics, at now: WallTime) {
        let build = process.build
        let info = family(.buildInfo)
        sample(info, [("version", build.version), ("commit", build.commit), ("swift", build.swift)], 1)

        let reloads = family(.configReloads)
        sample(reloads, [("result", "ok")], Int64(clamping: process.reloads.succeeded))
        sample(reloads, [("result", "failed")], Int64(clamping: process.reloads.failed))

        let reload = family(.lastConfigReload)
        if let time = process.lastReloadSuccess { sample(reload, [], time.microseconds, decimals: 6) }
        writeKeySets(process.keySets.sorted { $0.key < $1.key }, at: now)

        let skew = family(.clockSkew)
        for (source, value) in process.clocks.bySource.sorted(by: { $0.key < $1.key }) {
            sample(skew, [("source", source)], value, decimals: 6)
        }
        let expiry = family(.certificateExpiry)
        for (name, time) in process.certificates.sorted(by: { $0.key < $1.key }) {
            sample(expiry, [("name", name)], time.microseconds, decimals: 6)
        }
        let late = family(.certificateLate)
        for (name, renewal) in process.renewals.sorted(by: { $0.key < $1.key }) {
            sample(late, [("name", name)], renewal.isLate(at: now) ? 1 : 0)
        }
        write(process.bus)
        let lookups = family(.tierLookups)
        for (issuer, counts) in process.tierLookups.sorted(by: { $0.key < $1.key }) {
            for result in TierLookupResult.allCases {
                sample(lookups, [("issuer", issuer), ("result", result.text)], Int64(clamping: counts[result.rawValue]))
            }
        }
        sample(family(.limitEvictions), [], Int64(clamping: process.limitEvictions))
        write(process.attempts)
        write(process.purchases)
        let merges = family(.merges)
        for outcome in MergeCount.allCases {
            sample(merges, [("outcome", outcome.text)], Int64(clamping: process.merges[outcome.rawValue]))
        }
        let guards = family(.splitGuards)
        for (route, count) in process.splitGuards.sorted(by: { $0.key < $1.key }) {
            sample(guards, [("route", route)], Int64(clamping: count))
        }
        let apps = family(.appRequests)
        for app in process.apps { sample(apps, [("gate", app.gate), ("version", app.version)], Int64(clamping: app.requests)) }
        let closed = family(.maintenance)
        for scope in process.closed { sample(closed, [("scope", scope)], 1) }
        let keys = family(.apiKeys)
        if let count = process.apiKeys { sample(keys, [], Int64(count)) }
        write(process.events)
        write(process.spans)
        let active = family(.overloadActive)
        for reason in OverloadReason.allCases {
            sample(active, [("reason", reason.text)], process.overload.reasons.contains(reason) ? 1 : 0)
        }
        let limit = family(.overloadLimit)
        for reason in OverloadReason.allCases {
            if let bound = process.overload.limits[reason] { sample(limit, [("reason", reason.text)], Int64(clamping: bound)) }
        }
    }

    private mutating func write(_ spans: SpanCounts) {
        sample(family(.spansExported), [], Int64(clamping: spans.exported))
        let dropped = family(.spansDropped)
        for reason in SpanDropReason.allCases {
            sample(dropped, [("reason", reason.text)], Int64(clamping: spans.dropped[reason.rawValue]))
        }
        sample(family(.spansQueued), [], Int64(spans.queued))
    }

    private mutating func writeKeySets(_ sets: [(key: String, value: ProcessMetrics.KeySetState)], at now: WallTime) {
        let fetches = family(.keySetFetches)
        for (issuer, state) in sets {
            for result in KeySetFetch.allCases {
                let count = Int64(clamping: state.fetches[result.rawValue])
                sample(fetches, [("issuer", issuer), ("result", result.text)], count)
            }
        }
        let ages = family(.keySetAge)
        for (issuer, state) in sets {
            guard let fetched = state.lastSuccess else { continue }
            let age = max(0, now.microseconds - fetched.microseconds)
            sample(ages, [("issuer", issuer)], age, decimals: 6)
        }
        let keys = family(.keySetKeys)
        for (issuer, state) in sets { sample(keys, [("issuer", issuer)], Int64(state.keys)) }
    }
}
