import CLinux
import Glibc

/// Signals that the process handles as events.
package enum ProcessSignal: CaseIterable, Sendable, Equatable {
    case hangup, terminate, interrupt, child, user1, user2

    var number: Int32 {
        switch self {
        case .hangup: SIGHUP
        case .terminate: SIGTERM
        case .interrupt: SIGINT
        case .child: SIGCHLD
        case .user1: SIGUSR1
        case .user2: SIGUSR2
        }
    }

    init?(number: Int32) {
        guard let signal = Self.allCases.first(where: { $0.number == number }) else { return nil }
        self = signal
    }
}

/// Signals as events of one thread, instead of interrupting any thread.
package enum Signals {
    /// Blocks `signals` in this thread and in threads started later, so call it first. Ignores SIGPIPE and SIGXFSZ.
    package static func block(_ signals: [ProcessSignal]) throws(SystemFault) {
        // A write to a closed connection then returns EPIPE, also inside libraries.
        _ = signal(SIGPIPE, SIG_IGN)
        // A write beyond a file-size limit (`LimitFSIZE=`) then returns EFBIG, as one to a full disk returns ENOSPC.
        _ = signal(SIGXFSZ, SIG_IGN)
        var set = Self.set(signals)
        let number = unsafe pthread_sigmask(SIG_BLOCK, &set, nil)
        guard number == 0 else { throw SystemFault("block signals", errno: number) }
    }

    /// Waits for the next of `taken`; nil after `milliseconds` (-1: no limit).
    package static func next(_ taken: [ProcessSignal], milliseconds: Int32 = -1) -> ProcessSignal? {
        var set = Self.set(taken)
        guard milliseconds >= 0 else {
            while true {
                if let signal = unsafe ProcessSignal(number: sigwaitinfo(&set, nil)) { return signal }
            }
        }
        var limit = timespec(
            tv_sec: Int(milliseconds) / 1000, tv_nsec: Int(milliseconds) % 1000 * 1_000_000)
        return unsafe ProcessSignal(number: sigtimedwait(&set, nil, &limit))
    }

    private static func set(_ signals: [ProcessSignal]) -> sigset_t {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for signal in signals { unsafe sigaddset(&set, signal.number) }
        return set
    }
}
