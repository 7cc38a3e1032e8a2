internal import Glibc
internal import System
internal import Transport
internal import Wire

/// Upgrades of the running gateway: starts the program anew, hands it the listeners, and waits until it is ready. At most one upgrade
/// is under way. Belongs to the main thread.
struct Succession {
    /// The variable that tells the new process under which descriptor it finds its end of the channel.
    static let variable = "HANDOVER_FD"

    /// How this process was started.
    private let program: String
    private let arguments: [String]
    private let environment: [(name: String, value: String)]
    private let listeners: [ListenerGroup]
    private let log: ServerLog
    /// Of the service manager.
    private let socket: String?
    private var underWay: (child: ChildProcess, channel: DescriptorChannel, until: MonotonicTime)?
    /// SIGHUP came during the upgrade: the new process may have read the configuration before.
    private var reloadIsDue = false

    /// Milliseconds that a new process has to become ready.
    private static let patience: UInt64 = 60_000

    enum Step {
        case nothing
        /// The upgrade has failed, and a reload was postponed for it.
        case reload
        /// That process has the listeners and is the main one; this one drains.
        case handedOver(to: ChildProcess)
    }

    /// `command` begins with the program's name; `socket` is that of the service manager.
    init(
        command: [String], environment: [(name: String, value: String)], listeners: [ListenerGroup], log: ServerLog,
        notifying socket: String?
    ) {
        self.socket = socket
        program = command[0]
        arguments = Array(command.dropFirst())
        self.environment = environment.filter { $0.name != Self.variable }
        self.listeners = listeners
        self.log = log
    }

    var isUnderWay: Bool { underWay != nil }

    /// Starts the program. A fault is logged and changes nothing.
    mutating func begin(at now: MonotonicTime) {
        guard underWay == nil else { return log.warning("an upgrade is under way already") }
        guard getpid() != 1 else {
            let detail = "a container ends with its first process: replace the container"
            return log.error("upgrade refused", ("error", "this is the first process of a container"), ("detail", detail))
        }
        do {
            let (ours, theirs) = try DescriptorChannel.pair()
            let variable = (Self.variable, "\(ChildProcess.givenDescriptor)")
            // The descriptor closes with `theirs`, which must outlast the start.
            let child = try withExtendedLifetime(theirs) {
                try ChildProcess(program, arguments: arguments, variables: environment + [variable], giving: theirs.descriptor)
            }
            underWay = (child, ours, now.advanced(milliseconds: Self.patience))
            notifySystemd(.status("upgrading"), socket: socket)
            log.info("upgrade begins", ("program", program), ("pid", "\(child.pid)"))
            try send(over: ours)
        } catch {
            fail("\(error)")
        }
    }

    private func send(over channel: DescriptorChannel) throws(SystemFault) {
        for group in listeners {
            var rest = group.sockets[...]
            while !rest.isEmpty {
                try channel.send(
                    HandoverMessage.listener(group.kind, group.declared).text,
                    rest.prefix(DescriptorChannel.maxDescriptors).map(\.descriptor))
                rest = rest.dropFirst(DescriptorChannel.maxDescriptors)
            }
        }
        try channel.send(HandoverMessage.complete.text)
    }

    /// SIGHUP came. Whether the reload waits for the end of the upgrade.
    mutating func postponesReload() -> Bool {
        reloadIsDue = isUnderWay
        return reloadIsDue
    }

    /// Looks for news of the new process. When it is ready, it is made the main one at the service manager.
    mutating func advance(at now: MonotonicTime) -> Step {
        guard let (child, channel, until) = underWay else { return .nothing }
        switch channel.receive(milliseconds: 0) {
        case .message(let text, _):
            guard HandoverMessage(parsing: text) == .ready else { return failed("the new version speaks otherwise; restart instead") }
            // Sent before `yours`, because systemd accepts notifications of the main process alone.
            notifySystemd(.status(""), socket: socket)
            notifySystemd(.mainProcess(child.pid), socket: socket)
            do {
                try channel.send(HandoverMessage.yours.text)
            } catch {
                notifySystemd(.mainProcess(getpid()), socket: socket)
                return failed("\(error)")
            }
            if reloadIsDue { child.signal(.hangup) }
            underWay = nil
            log.info("upgrade done", ("pid", "\(child.pid)"))
            return .handedOver(to: child)
        // It closes its end when it ends.
        case .closed: return failed("the new process", patience: 1_000)
        case .nothing:
            guard now >= until else { return .nothing }
            return failed("the new process was not ready within \(Self.patience / 1_000) s")
        }
    }

    /// This process ends: so does the new one, if it is not ready yet.
    mutating func abandon() {
        if isUnderWay { fail("the running gateway was told to end") }
    }

    private mutating func failed(_ reason: String, patience: Int = 0) -> Step {
        fail(reason, patience: patience)
        defer { reloadIsDue = false }
        return reloadIsDue ? .reload : .nothing
    }

    /// `patience`: milliseconds until the new process is killed.
    private mutating func fail(_ reason: String, patience: Int = 0) {
        let end = underWay.map { " \($0.child.end(within: patience))" } ?? ""
        underWay = nil
        notifySystemd(.status("upgrade failed: \(reason)\(end)"), socket: socket)
        log.error("upgrade failed", ("error", reason + end), ("detail", "the running process keeps serving"))
    }
}
