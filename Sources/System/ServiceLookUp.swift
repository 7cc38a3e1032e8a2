import CLinux
import Glibc

extension Resolver {
    /// The SRV records of `name`, in the order of `ServiceRecord`; never empty. Blocks for as long as the system's resolver takes, so
    /// not on a loop. `server`: an IPv4 name server to ask in place of those of resolv.conf(5).
    package static func services(
        _ name: String, server: (address: UInt32, port: UInt16)? = nil
    ) throws(SystemFault) -> [ServiceRecord] {
        let operation = "find the SRV records of \(name)"
        // The largest DNS message: longer ones do not exist.
        var answer = [UInt8](repeating: 0, count: 65_535)
        let length = unsafe clinux_query_srv(name, server?.address ?? 0, server?.port ?? 0, &answer, Int32(answer.count))
        guard length > 0 else { throw SystemFault(operation, reason: reason(-length)) }
        let records: [ServiceRecord]
        do throws(DNSAnswer.Fault) {
            records = try DNSAnswer.services(Array(answer.prefix(Int(length))))
        } catch {
            throw SystemFault(operation, reason: "the name server's answer is \(error)")
        }
        guard !records.isEmpty else { throw SystemFault(operation, reason: reason(NO_DATA)) }
        return records
    }

    /// The sentence for an `h_errno` of netdb.h.
    private static func reason(_ number: Int32) -> String {
        switch number {
        case HOST_NOT_FOUND: "there is no such name"
        case NO_DATA: "the name has no SRV records"
        case TRY_AGAIN: "the name server does not answer"
        default: "the name server refuses"
        }
    }
}
