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
        for pool in upstreams.directory.pools.indices {
            guard upstreams.directory.pools[pool].settings.healthPath != nil, now.monotonic >= upstreams.directory.pools[pool].nextProbe else {
                continue
            }
            upstreams.directory.pools[pool].nextProbe = now.monotonic.advanced(
                milliseconds: upstreams.directory.pools[pool].settings.healthInterval)
            for number in upstreams.directory.pools[pool].endpoints.indices where !upstreams.directory.pools[pool].endpoints[number].isRetired {
                probe(EndpointIndex(pool: pool, number: number))
            }
        }
    }

    private mutating func probe(_ endpoint: EndpointIndex) {
        do throws(UpstreamLoss) {
            let upstream = try openUpstream(endpoint)
            upstreams.connections[upstream].isProbe = true
        } catch {
            if error.countsAgainstAddress { probeEnded(endpoint, good: false) }
        }
    }

    /// The connection stands: asks.
    mutating func sendProbe(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let endpoint = upstreams.connections[upstream].endpoint
        let settings = upstreams.directory.pools[endpoint.pool].settings
        let address = upstreams.directory[endpoint].address
        var request = ByteBuffer(capacity: 256)
        request.append("GET ")
        request.append(address.pathPrefix)
        request.append(settings.healthPath ?? "/")
        request.append(" HTTP/1.1\r\nHost: ")
        request.append(address.authority)
        request.append("\r\nUser-Agent: tollgate-health\r\nConnection: close\r\n\r\n")
        guard case .done(request.count) = upstreams.connections[upstream].connection.send(request) else {
            return lost(upstream, .brokenWhileSending, &scratch)
        }
        upstreams.connections[upstream].phase = .probing
        upstreams.connections[upstream].http.requestSent(.get, on: .http1)
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: settings.healthInterval))
        refreshUpstreamInterest(upstream)
    }

    mutating func receiveProbe(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        repeat {
            var input = ByteBuffer()
            swap(&input, &upstreams.connections[upstream].input)
            switch upstreams.connections[upstream].connection.receive(into: &input, upTo: 16_384) {
            case .done: readProbe(upstream, &input, &scratch)
            // With TLS that may be a session ticket, or half a record.
            case .wouldBlock: return swap(&input, &upstreams.connections[upstream].input)
            case .closed, .failed: return lost(upstream, .closedUnanswered, &scratch)
            }
            if upstreams.connections.isCurrent(handle) { swap(&input, &upstreams.connections[upstream].input) }
        } while upstreams.connections.isCurrent(handle) && upstreams.connections[upstream].connection.hasPending
    }

    /// Any final answer from 200 to 399 is a good one.
    private mutating func readProbe(_ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        while true {
            switch upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits) {
            case .needMore: return
            case .interim: input.discard(scratch.response.length)
            case .head:
                let endpoint = upstreams.connections[upstream].endpoint
                tellClock(endpoint, input.readable, scratch.response)
                let good = (200..<400).contains(scratch.response.status)
                upstreams.close(upstream)
                return probeEnded(endpoint, good: good)
            case .fault(let fault): return lost(upstream, .badAnswer(fault), &scratch)
            case .content, .trailers, .end: preconditionFailure("a probe ends with the head of its answer")
            }
        }
    }

    /// Hands on what the upstream's clock says, if it says so.
    private func tellClock(_ endpoint: EndpointIndex, _ bytes: RawSpan, _ head: borrowing ResponseHead) {
        guard let index = head.fields.first(.date), let date = HTTPDate.parse(bytes[head.fields[index].value]) else { return }
        services.sawClock(upstreams.directory.pools[endpoint.pool].settings.name, date, now.wall)
    }

    mutating func probeEnded(_ endpoint: EndpointIndex, good: Bool) {
        switch upstreams.directory[endpoint].health.probed(good: good) {
        case .none, .ejected: break
        case .turnedHealthy, .turnedUnhealthy:
            services.healthChanged(upstreams.directory.pools[endpoint.pool].settings.name, upstreams.directory[endpoint].address, good)
        }
    }
}
