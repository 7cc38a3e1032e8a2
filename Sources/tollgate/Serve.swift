internal import Contracts
internal import Credentials
internal import Gate
internal import Glibc
internal import HTTP
internal import Limits
internal import Proxy
internal import System
internal import Telemetry
internal import Threads
internal import Transport
internal import Wire

/// The commands that run until a signal ends them.
enum Serve {
    /// Runs the gateway; returns when it has drained. `loader` reloads the configuration on SIGHUP.
    static func run(_ configuration: GatewayConfiguration, loader: ConfigurationLoader) -> CommandResult {
        let log: ServerLog
        do {
            try Signals.block(Gateway.signals)
            _ = DescriptorLimit.raise()
            log = try ServerLog(configuration.settings)
        } catch {
            return .failed("\(error)")
        }
        do {
            let takeover = try Takeover(loader.environment)
            var gateway = try Gateway(
                configuration, log: log, environment: loader.environment, inheriting: takeover?.listeners ?? InheritedListeners())
            try takeover?.finish()
            gateway.serve(
                loader, command: CommandLine.arguments, notifying: loader.environment.first { $0.name == "NOTIFY_SOCKET" }?.value)
            return CommandResult()
        } catch {
            // Threads that were started go on until the process ends.
            log.close()
            return .failed("\(error)")
        }
    }

    /// Runs the demo upstream.
    static func echo(listen: String) -> CommandResult {
        guard let address = SocketAddress(parsing: listen) else {
            return .failed("--listen \(listen) is no address, write one like 127.0.0.1:9001", exitCode: 2)
        }
        do {
            try Signals.block([.terminate, .interrupt])
            return try EchoServer.run(address)
        } catch {
            return .failed("\(error)")
        }
    }
}

/// The demo upstream: one worker whose only route echoes requests, and serves texts below `/passages`.
enum EchoServer {
    static func run(_ address: SocketAddress) throws -> CommandResult {
        let socket = try Socket.listen(on: address)
        let waker = try Waker()
        let mailbox = Mailbox<WorkerMessage>(waker: waker)
        let thread = try WorkerThread(name: "echo") {
            do {
                try serve(socket, waker, mailbox)
            } catch {
                preconditionFailure("\(error)")
            }
        }
        print("echo listens on \(try socket.localAddress())")
        _ = fflush(nil)
        _ = Signals.next([.terminate, .interrupt])
        mailbox.post(.drain(within: 1_000))
        thread.join()
        return CommandResult()
    }

    private static func serve(_ socket: Socket, _ waker: Waker, _ mailbox: Mailbox<WorkerMessage>) throws {
        let answer: LocalHandler = { request in
            let passages = DemoPassages.render(path: request.path)
            return LocalResponse(
                status: 200, contentType: "application/json",
                body: passages
                    ?? EchoAnswer.render(
                        method: request.method, target: request.target, headers: request.fields, body: request.body.rawBytes))
        }
        var everything = RouteRule(name: "echo", path: "/", isPrefix: true, target: .local(0), auth: .none)
        everything.bodyLimit = 65_536
        let policy = try Policy(rules: [everything], trust: Trust(issuers: []), envelopes: Catalogue.envelopes)
        let limiter = SharedLimiter()
        var worker = try Worker(
            id: 0, settings: WorkerSettings(), loop: EventLoop(waker: waker), mailbox: mailbox,
            services: WorkerServices(admin: answer, local: [answer]), listeners: [Listener(socket: socket)], upstreams: [],
            admission: Admission(policy: policy, limiter: limiter, cacheCapacity: 1), limits: LimitCounter(limiter),
            telemetry: WorkerTelemetry(
                labels: MetricLabels(WorkerTelemetry.words), sink: nil, format: .json, seed: 1))
        worker.run()
    }
}
