package import Credentials
package import Wire

/// The state of one name beside its certificate: how the last order ended, and when the next one is due. Pure.
package struct RenewalState: Equatable, Sendable {
    /// Orders that failed in a row.
    package private(set) var failures = 0
    /// No order before that time; nil for none.
    package private(set) var notBefore: WallTime?
    /// Why the last order failed; nil if it did not.
    package private(set) var cause: String?
    package private(set) var problem: String?
    /// The time in the window that the authority suggests (RFC 9773), for the certificate of this serial number.
    package private(set) var suggested: (serial: String, at: WallTime)?
    /// When the authority is asked for that window again.
    package private(set) var asksAt: WallTime?

    package init() {}

    package static func == (left: Self, right: Self) -> Bool { left.text == right.text }

    // MARK: orders

    private static let hour: Int64 = 3_600
    private static let day: Int64 = 86_400
    /// For a failure before the authority had taken the order, which costs it nothing.
    private static let soon: Int64 = 60

    /// An order has failed. The next one waits for an hour, twice as long with each failure, and a day at most; for a minute where the
    /// authority had not taken the order, which counts as no failure, and for longer where it says so.
    package mutating func failed(_ failure: AcmeFailure, at now: WallTime) {
        let isCheap = !failure.hadOrder && [.unreachable, .server, .here].contains(failure.cause)
        if !isCheap { failures = min(failures + 1, 16) }
        let pause = isCheap ? Self.soon : min(Self.hour << Int64(failures - 1), Self.day)
        let next = now.advanced(seconds: max(pause, failure.retryAfter ?? 0))
        // An order by hand that fails sooner does not end the wait after an earlier failure.
        notBefore = max(next, notBefore ?? next)
        (cause, problem) = (failure.cause.rawValue, failure.sentence)
    }

    /// The certificate has taken the place of another authority's. While gateways of one database are set to different authorities, each
    /// would replace the other's at once.
    package mutating func replaced(at now: WallTime) { notBefore = now.advanced(seconds: Self.hour) }

    /// When the next order is due: at once without a certificate, in the authority's window, or after two thirds of the lifetime, less up
    /// to a twentieth that the serial number chooses, so that certificates of one day are not renewed in one second.
    package func dueAt(_ certificate: IssuedCertificate?) -> WallTime {
        let wanted = certificate.map { renewal(of: $0) } ?? WallTime(seconds: 0)
        return max(wanted, notBefore ?? wanted)
    }

    private func renewal(of certificate: IssuedCertificate) -> WallTime {
        let lifetime = certificate.expiresAt.microseconds - certificate.startsAt.microseconds
        if let suggested, suggested.serial == certificate.serial {
            // Whatever the authority suggests, there is time for a second try.
            return min(suggested.at, WallTime(microseconds: certificate.expiresAt.microseconds - lifetime / 6))
        }
        let share = Int64(Digest.sha256(Array(certificate.serial.utf8).rawBytes)[0])
        return WallTime(microseconds: certificate.startsAt.microseconds + lifetime / 3 * 2 - lifetime / 20 / 256 * share)
    }

    /// From that time on less than a third of the lifetime is left.
    package static func lateAt(_ certificate: IssuedCertificate) -> WallTime {
        let lifetime = certificate.expiresAt.microseconds - certificate.startsAt.microseconds
        // A renewal in time takes a moment.
        return WallTime(microseconds: certificate.expiresAt.microseconds - lifetime / 3 + lifetime / 30)
    }

    // MARK: the authority's window

    /// Whether the authority is to be asked when it wants the certificate renewed.
    package func asksForWindow(at now: WallTime) -> Bool { asksAt.map { $0 <= now } ?? true }

    /// It has answered, or not: a random time in its window is chosen once, and kept while it lies in the window.
    package mutating func read(_ response: AcmeResponse, for certificate: IssuedCertificate, at now: WallTime, random: UInt64) {
        asksAt = now.advanced(seconds: max(response.seconds(at: now) ?? 6 * Self.hour, Self.soon))
        let window = response.json["suggestedWindow"]
        guard response.problem == nil, response.isSuccess, let start = window["start"].time, let end = window["end"].time, start < end
        else {
            return
        }
        if let suggested, suggested.serial == certificate.serial, start <= suggested.at, suggested.at <= end { return }
        let length = UInt64(end.microseconds - start.microseconds)
        suggested = (certificate.serial, WallTime(microseconds: start.microseconds + Int64(random % length)))
    }

    // MARK: its text

    /// JSON, as it is stored.
    package var text: String {
        var json = JSONWriter()
        json.beginObject()
        json.field("failures", failures)
        json.optional("not_before", notBefore.map(ISO8601.text))
        json.optional("cause", cause)
        json.optional("problem", problem)
        json.optional("serial", suggested?.serial)
        json.optional("suggested", suggested.map { ISO8601.text($0.at) })
        json.optional("asks_at", asksAt.map(ISO8601.text))
        json.endObject()
        return json.finish().readable.text
    }

    /// The state of a text; the first one for a text that cannot be read.
    package init(text: String) {
        let json = text.withRawBytes { JSONTree($0) } ?? .null
        failures = Int(min(max(json["failures"].integer ?? 0, 0), 16))
        (notBefore, cause, problem) = (json["not_before"].time, json["cause"].text, json["problem"].text)
        if let serial = json["serial"].text, let at = json["suggested"].time { suggested = (serial, at) }
        asksAt = json["asks_at"].time
    }
}
