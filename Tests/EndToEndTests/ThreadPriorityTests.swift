import Foundation
import TestThreads
import Testing

/// How the gateway's threads share a core: requests go before the rest of its work.
@Suite(.ownThread) struct ThreadPriorityTests {
    /// A thread of a process as the scheduler has it (proc_pid_stat(5)).
    private struct Scheduled {
        let name: String
        let niceness: Int
        /// Of its time slices, in ns; nil if this kernel does not say.
        let slice: Int?

        static func all(of process: pid_t) throws -> [Scheduled] {
            let folder = "/proc/\(process)/task"
            return try FileManager.default.contentsOfDirectory(atPath: folder).map { thread in
                let stat = try String(contentsOfFile: "\(folder)/\(thread)/stat", encoding: .utf8)
                let name = stat.split(separator: "(", maxSplits: 1)[1].split(separator: ")")[0]
                let fields = stat[stat.index(after: try #require(stat.lastIndex(of: ")")))...].split(separator: " ")
                // Field 19, of which the first after the name is the third.
                return Scheduled(name: String(name), niceness: try #require(Int(fields[16])), slice: slice("\(folder)/\(thread)/sched"))
            }
        }

        private static func slice(_ path: String) -> Int? {
            // Not every kernel has it.
            guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return nil }
            return text.split(separator: "\n").first { $0.hasPrefix("se.slice") }?.split(separator: " ").last.flatMap { Int($0) }
        }
    }

    @Test func threadsThatHashPasswordsGiveWayAndWorkersPreemptTheControlPlane() throws {
        let upstream = try Upstream()
        let gateway = try Gateway(
            "TOLLGATE_CONTRACTS=password@/api/v1\nTOLLGATE_WORKERS=2\nTOLLGATE_ROUTE_A=\"/* upstream=u auth=none\"\nTOLLGATE_UPSTREAM_U="
                + upstream.url)
        var threads: [Scheduled] = []
        var (workers, hashers): ([Scheduled], [Scheduled]) = ([], [])
        var others: [Scheduled] = []
        // Each thread names itself and gives way once it runs, which may be after the gateway says that it listens.
        try eventually("threads that have begun") {
            // One that ends meanwhile cannot be read.
            threads = (try? Scheduled.all(of: gateway.process.pid)) ?? []
            (workers, hashers) = (threads.filter { $0.name.hasPrefix("worker-") }, threads.filter { $0.name == "passwords" })
            others = threads.filter { !$0.name.hasPrefix("worker-") && $0.name != "passwords" }
            guard workers.count == 2, !hashers.isEmpty, let own = workers.map(\.niceness).max(),
                hashers.allSatisfy({ $0.niceness >= own + 10 || $0.niceness == 19 })
            else { return false }
            guard let longest = workers.compactMap(\.slice).max(), hashers.contains(where: { $0.slice == 20_000_000 }) else { return true }
            return others.allSatisfy { ($0.slice ?? .max) > longest }
        }
        #expect(workers.count == 2 && !hashers.isEmpty && !others.isEmpty)
        let own = try #require(workers.map(\.niceness).max())
        #expect(hashers.allSatisfy { $0.niceness >= own + 10 || $0.niceness == 19 })
        // Slices can be chosen from Linux 6.12 on, and are shown by kernels with CONFIG_SCHED_DEBUG.
        guard let longest = workers.compactMap(\.slice).max(), hashers.contains(where: { $0.slice == 20_000_000 }) else { return }
        #expect(others.allSatisfy { ($0.slice ?? .max) > longest })
    }
}
