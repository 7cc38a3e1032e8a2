import Gate
import HTTP
import System
import Transport
import Wire

/// Active health checks of upstreams with `health=`. One worker probes all addresses and broadcasts the verdicts.
///
/// Each probe uses a new connection, so that it tests connecting too.
extension Worker {
    /// Starts the probes that are due; called once a turn.
    mutating func probeIfDue() {
        guard upstreams.directory.hasProbes, services.probes, phase == .serving else { return }
        for pool in upstreams.directory.pools.indices {
            guard upstreams.directory.pools[pool].settings.health != nil, now.monotonic >= upstreams.directory.pools[pool].nextProbe else {
                continue
            }
            upstreams.directory.pools[pool].nextProbe = now.monotonic.advanced(
                milliseconds: upstreams.directory.pools[pool].settings.healthInterval)
            for number in upstreams.directory.pools[pool].endpoints.indices
            where !upstreams.directory.pools[pool].endpoints[number].isRetired {
                probe(EndpointIndex(pool: pool, number: number))
            }
        }
    }

    private mutating func probe(_ endpoint: EndpointIndex) {
        do throws(SystemFault) {
            let upstream = try upstreams.open(endpoint, at: now.monotonic, in: loop)
            upstreams.connections[upstream].isProbe = true
            if upstreams.directory.address(endpoint).speaksHTTP2 { upstreams.addSession(upstream, takesRequests: false) }
        } catch {
            if cannotBegin(error).row.countsAgainstAddress(isBehindHead: false) { probeEnded(endpoint, good: false) }
        }
    }

    /// The connection is established: sends the request.
    mutating func sendProbe(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let endpoint = upstreams.connections[upstream].endpoint
        let settings = upstreams.directory.pools[endpoint.pool].settings
        let address = upstreams.directory.address(endpoint)
        upstreams.timers.set(upstream.id, deadline: now.monotonic.advanced(milliseconds: settings.healthInterval))
        upstreams.connections[upstream].phase = .probing
        guard case .path(let path) = settings.health else { return sendGRPCProbe(upstream, &scratch) }
        var request = ByteBuffer(capacity: 256)
        request.append("GET ")
        request.append(address.pathPrefix)
        request.append(path)
        request.append(" HTTP/1.1\r\nHost: ")
        request.append(address.authority)
        request.append("\r\nUser-Agent: tollgate-health\r\nConnection: close\r\n\r\n")
        if let session = upstreams.connections[upstream].session {
            _ = upstreams.sessions[session].http2.sendRequest(
                request.readable, isSecure: address.tls != nil, endsStream: true, owner: upstream.number,
                into: &upstreams.connections[upstream].output)
            return upstreams.settleLater(upstream)
        }
        guard case .done(request.count) = upstreams.connections[upstream].connection.send(request) else {
            return lost(upstream, .brokenWhileSending, &scratch)
        }
        upstreams.connections[upstream].http.requestSent(.get)
        refreshUpstreamInterest(upstream)
    }

    mutating func receiveProbe(_ upstream: UpstreamIndex, _ scratch: inout Scratch) {
        let handle = upstreams.connections.handle(upstream)
        repeat {
            var input = ByteBuffer()
            swap(&input, &upstreams.connections[upstream].input)
            switch upstreams.connections[upstream].connection.receive(into: &input, upTo: 16_384) {
            case .done: readProbe(upstream, &input, &scratch)
            // With TLS, what came may have been a session ticket or half a record.
            case .wouldBlock: return swap(&input, &upstreams.connections[upstream].input)
            case .closed, .failed: return lost(upstream, .closedUnanswered, &scratch)
            }
            if upstreams.connections.isCurrent(handle) { swap(&input, &upstreams.connections[upstream].input) }
        } while upstreams.connections.isCurrent(handle) && upstreams.connections[upstream].connection.hasPending
    }

    /// A final answer from 200 to 399 is a success.
    private mutating func readProbe(_ upstream: UpstreamIndex, _ input: inout ByteBuffer, _ scratch: inout Scratch) {
        while true {
            switch upstreams.connections[upstream].http.next(&input, &scratch.response, &scratch.trailers, settings.headLimits) {
            case .needMore: return
            case .interim: input.discard(scratch.response.length)
            case .head: return probeAnswered(upstream, scratch.response, input.readable)
            case .fault: return lost(upstream, .badAnswer, &scratch)
            case .upgraded, .content, .trailers, .end: preconditionFailure("a probe ends with the head of its answer")
            }
        }
    }

    /// The head of the answer has come, parsed from `bytes`.
    mutating func probeAnswered(_ upstream: UpstreamIndex, _ head: borrowing ResponseHead, _ bytes: RawSpan) {
        let endpoint = upstreams.connections[upstream].endpoint
        if let index = head.fields.first(.date), let date = HTTPDate.parse(bytes[head.fields[index].value]) {
            services.sawClock(upstreams.directory.pools[endpoint.pool].settings.name, date, now.wall)
        }
        let good = (200..<400).contains(head.status)
        upstreams.close(upstream)
        probeEnded(endpoint, good: good)
    }

    /// A probe has a verdict, which comes too late if a reload or DNS has taken the check or the address away since.
    mutating func probeEnded(_ endpoint: EndpointIndex, good: Bool) {
        guard upstreams.directory.isProbed(endpoint) else { return }
        let rules = upstreams.directory.pools[endpoint.pool].settings.outliers
        switch upstreams.directory[endpoint].health.probed(good: good, at: now.monotonic, rules) {
        case .none: break
        case .turnedHealthy, .turnedUnhealthy:
            upstreams.directory.pools[endpoint.pool].records[endpoint.number].probed(good: good, at: now.monotonic)
            announcePanic(endpoint.pool)
            services.healthChanged(upstreams.directory.pools[endpoint.pool].settings.name, upstreams.directory.address(endpoint), good)
        }
    }
}
