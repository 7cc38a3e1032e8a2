import HTTP
import Transport
import Wire

/// Asks every address of an upstream with `health=` whether it is well: one worker does it and tells the others.
///
/// Each probe is a connection of its own, so that it also finds out whether one can be had.
extension Worker {
    /// Starts the probes whose time has come; called once a turn.
    mutating func probeIfDue() {
        guard services.probes, phase == .serving else { return }
        for pool in directory.pools.indices {
            guard directory.pools[pool].settings.healthPath != nil, now.monotonic >= directory.pools[pool].nextProbe else {
                continue
            }
            directory.pools[pool].nextProbe = now.monotonic.advanced(
                milliseconds: directory.pools[pool].settings.healthInterval)
            for endpoint in directory.pools[pool].endpoints.indices
            where !directory.pools[pool].endpoints[endpoint].isRetired {
                probe(pool, endpoint)
            }
        }
    }

    private mutating func probe(_ pool: Int, _ endpoint: Int) {
        do throws(UpstreamLoss) {
            let upstream = try openUpstream(pool, endpoint)
            upstreams[upstream].isProbe = true
        } catch {
            if error.countsAgainstAddress { probeEnded(pool, endpoint, good: false) }
        }
    }

    /// The connection stands: asks.
    mutating func sendProbe(_ upstream: Int, _ scratch: inout Scratch) {
        let settings = directory.pools[upstreams[upstream].pool].settings
        let place = directory.pools[upstreams[upstream].pool].endpoints[upstreams[upstream].endpoint].place
        var request = ByteBuffer(capacity: 256)
        request.append("GET ")
        request.append(place.pathPrefix)
        request.append(settings.healthPath ?? "/")
        request.append(" HTTP/1.1\r\nHost: ")
        request.append(place.authority)
        request.append("\r\nUser-Agent: tollgate-health\r\nConnection: close\r\n\r\n")
        guard case .done(request.count) = upstreams[upstream].channel.send(request.readable, &workspace) else {
            return lost(upstream, .brokenWhileSending, &scratch)
        }
        upstreams[upstream].phase = .probing
        upstreamTimers.set(upstream, deadline: now.monotonic.advanced(milliseconds: settings.healthInterval))
        setUpstreamInterest(upstream, .read)
    }

    /// Any final answer below 400 is a good one.
    mutating func receiveProbe(_ upstream: Int, _ scratch: inout Scratch) {
        let handle = upstreamHandle(upstream)
        repeat {
            var input = ByteBuffer()
            swap(&input, &upstreams[upstream].input)
            let outcome = upstreams[upstream].channel.receive(into: &input, upTo: 16_384, &workspace)
            swap(&input, &upstreams[upstream].input)
            switch outcome {
            case .done: readProbe(upstream, &scratch)
            // With TLS that may be a session ticket, or half a record.
            case .wouldBlock: return
            case .closed, .failed: return lost(upstream, .closedUnanswered, &scratch)
            }
        } while upstreams.isCurrent(handle) && upstreams[upstream].channel.hasPending
    }

    private mutating func readProbe(_ upstream: Int, _ scratch: inout Scratch) {
        guard upstreams[upstream].isProbeDue(settings.headLimits) else { return }
        switch scratch.response.parse(
            upstreams[upstream].input.readable, requestMethod: .get, limits: settings.headLimits)
        {
        case .incomplete: upstreams[upstream].awaitHead()
        case .invalid(let fault): lost(upstream, .badAnswer(fault), &scratch)
        case .complete where scratch.response.isInterim:
            upstreams[upstream].input.discard(scratch.response.length)
            upstreams[upstream].headBegun = false
            readProbe(upstream, &scratch)
        case .complete:
            let good = (200..<400).contains(scratch.response.status)
            tellClock(upstream, scratch)
            let pool = upstreams[upstream].pool
            let endpoint = upstreams[upstream].endpoint
            closeUpstream(upstream)
            probeEnded(pool, endpoint, good: good)
        }
    }

    /// Hands on what the upstream's clock says, if it says so.
    private func tellClock(_ upstream: Int, _ scratch: borrowing Scratch) {
        guard let index = scratch.response.fields.first(.date) else { return }
        let value = scratch.response.fields[index].value
        guard let date = HTTPDate.parse(upstreams[upstream].input.readable[value]) else { return }
        services.sawClock(directory.pools[upstreams[upstream].pool].settings.name, date, now.wall)
    }

    mutating func probeEnded(_ pool: Int, _ endpoint: Int, good: Bool) {
        switch directory.pools[pool].endpoints[endpoint].health.probed(good: good) {
        case .none, .ejected: break
        case .turnedHealthy, .turnedUnhealthy:
            services.healthChanged(
                directory.pools[pool].settings.name, directory.pools[pool].endpoints[endpoint].place, good)
        }
    }
}
