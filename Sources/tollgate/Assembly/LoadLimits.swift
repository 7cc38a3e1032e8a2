internal import Settings
internal import Telemetry

/// The bounds on load that are in force: those of the settings, and where the process may have few descriptors, lower ones.
struct LoadLimits: Equatable {
    let connections: Int
    let requests: Int
    let localRequests: Int
    /// In bytes.
    let buffers: Int
    /// Pipes for splicing of one worker.
    let pipesOfWorker: Int
    /// Whether the descriptors lower the connections that the settings allow.
    let isShortOfDescriptors: Bool

    /// Descriptors of logs, database, Redis and the like, of each worker's loop, listeners and the admin API.
    private static let fixedDescriptors = 64
    private static let descriptorsOfWorker = 16
    private static let minConnections = 64
    private static let mostPipes = 256

    /// `descriptors`: the process's limit, nil if it is not known.
    init(_ settings: Configuration, workers: Int, descriptors: Int?) {
        let descriptors = descriptors ?? .max
        pipesOfWorker = min(Self.mostPipes, descriptors / 32 / workers)
        let free = descriptors - Self.fixedDescriptors - Self.descriptorsOfWorker * workers - 2 * pipesOfWorker * workers
        // Each client may need a connection to an upstream.
        let possible = max(Self.minConnections, free / 2)
        connections = min(settings.maxConnections, possible)
        requests = min(settings.maxRequests, possible)
        localRequests = settings.maxLocalRequests
        buffers = settings.maxBuffers
        isShortOfDescriptors = connections < settings.maxConnections
    }

    /// For the metrics.
    var byReason: [OverloadReason: Int] {
        [.connections: connections, .requests: requests, .local: localRequests, .buffers: buffers]
    }
}
