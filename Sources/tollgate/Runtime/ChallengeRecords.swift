internal import Acme
internal import Credentials
internal import Proxy
internal import Settings
internal import System
internal import Threads
internal import Transport
internal import Wire

/// The TXT records of `dns` challenges.
extension DNSRecords {
    /// Milliseconds that a record may take to be at every name server of its zone, that silent ones are waited for, and between two looks.
    private static let spreading: (most: UInt64, silent: UInt64, pause: UInt64) = (120_000, 15_000, 2_000)

    init(_ declaration: AcmeDNSDeclaration) {
        switch declaration {
        case .server(let keyName, let secret, let host, let port, let zone):
            self = .server(DNSUpdateServer(host: host, port: port, zone: zone, keyName: keyName, secret: secret.bytes))
        case .program(let path): self = .program(path)
        }
    }

    /// Adds or removes the record; returns why it could not. `variables` are those of the program.
    func set(_ challenge: AcmeChallenge, adds: Bool, _ variables: [(name: String, value: String)]) async -> String? {
        await work(failed: { $0 }) { random in
            set(challenge.record, adds: adds, now: EventLoop.now().wall, random: random, variables: variables)
        }
    }

    /// Waits until every name server of the zone has the record; returns why not within two minutes, or within 15 seconds if those that
    /// answer have it.
    func spread(_ challenge: AcmeChallenge) async -> String? {
        let start = EventLoop.now().monotonic
        let (end, silentEnd) = (start.advanced(milliseconds: Self.spreading.most), start.advanced(milliseconds: Self.spreading.silent))
        while !Task.isCancelled {
            let left = end.nanoseconds(since: EventLoop.now().monotonic) / 1_000_000
            let late = await work(failed: { Lateness($0) }) { random in
                problem(findingAll: challenge.record, random: random, within: left)
            }
            guard let late else { break }
            guard EventLoop.now().monotonic < (late.isSilence ? silentEnd : end) else {
                return "the order went on without waiting longer for all name servers: \(late.text)"
            }
            await pause(milliseconds: Self.spreading.pause)
        }
        return nil
    }

    private func work<Problem: Sendable>(
        failed: (String) -> Problem, _ body: @escaping @Sendable (_ random: UInt16) -> Problem?
    ) async -> Problem? {
        let random = SecureRandom.bytes(2)
        do throws(SystemFault) {
            return try await WorkerThread.run("acme dns") { body(UInt16(random[0]) << 8 | UInt16(random[1])) }
        } catch {
            return failed(error.description)
        }
    }
}
