import COpenSSL
import Glibc
package import Wire

/// Server side TLS configuration: certificates by name, Mozilla's "intermediate" versions and ciphers, application
/// protocols. Made once, shared by all threads; a reload makes another, and open sessions keep theirs.
@safe
package final class TLSServerContext: Sendable {
    /// Sentences about problems that do not prevent serving, such as an expired certificate.
    package let warnings: [String]
    // OpenSSL counts references to a context, and any thread may make sessions of it; nothing here changes after init.
    private nonisolated(unsafe) let contexts: [OpaquePointer]
    private nonisolated(unsafe) let leaves: [OpaquePointer]
    private nonisolated(unsafe) let protocols: UnsafeMutableBufferPointer<UInt8>
    let tickets: TLSTicketKeys
    /// Trust anchors for client certificates; nil if none are requested.
    private let clients: TLSClientAuthority?

    /// The first pair is the default if no pair matches the client's SNI. `protocols` are offered by ALPN, best first. With
    /// a `clientAuthority`, a PEM file, client certificates are requested. With `previous`, its sessions can be resumed,
    /// unless it verified client certificates differently.
    package init(
        pairs: [TLSCertificatePair], clientAuthority: String? = nil, protocols: [String] = ["http/1.1"], now: WallTime,
        resuming previous: TLSServerContext? = nil
    ) throws(TLSFault) {
        guard !pairs.isEmpty else { throw TLSFault("TLS needs a certificate and its key") }
        let clients: TLSClientAuthority? = if let clientAuthority { try TLSClientAuthority(clientAuthority) } else { nil }
        self.clients = clients
        if let previous, previous.clients?.fingerprint == clients?.fingerprint {
            tickets = previous.tickets
        } else {
            tickets = try TLSTicketKeys()
        }
        var contexts: [OpaquePointer] = unsafe []
        var leaves: [OpaquePointer] = unsafe []
        var warnings: [String] = []
        var fault: TLSFault?
        for pair in pairs where fault == nil {
            do throws(TLSFault) {
                let certificate = try TLSCertificate.read(pair, now: now)
                unsafe contexts.append(try Self.context(certificate, pair, clients))
                unsafe X509_up_ref(certificate.leaf)
                unsafe leaves.append(certificate.leaf)
                if let warning = certificate.warning { warnings.append(warning) }
            } catch {
                fault = error
            }
        }
        self.warnings = warnings
        unsafe self.contexts = unsafe contexts
        unsafe self.leaves = unsafe leaves
        unsafe self.protocols = unsafe TLSProtocols.encode(protocols)
        if let fault { throw fault }
        unsafe Self.listen(contexts)
    }

    /// The same configuration with a new key for session tickets. Tickets of the current key stay valid, those of the
    /// previous one do not.
    package func withNewTicketKey() throws(TLSFault) -> TLSServerContext {
        TLSServerContext(self, tickets: try tickets.rotated())
    }

    private init(_ other: TLSServerContext, tickets: TLSTicketKeys) {
        self.tickets = tickets
        warnings = other.warnings
        clients = other.clients
        unsafe contexts = unsafe other.contexts
        unsafe leaves = unsafe other.leaves
        unsafe protocols = .allocate(capacity: other.protocols.count)
        _ = unsafe protocols.initialize(fromContentsOf: other.protocols)
        // swift-format-ignore
        for unsafe context in unsafe contexts { unsafe SSL_CTX_up_ref(context) }
        // swift-format-ignore
        for unsafe leaf in unsafe leaves { unsafe X509_up_ref(leaf) }
    }

    deinit {
        unsafe contexts.forEach { unsafe SSL_CTX_free($0) }
        unsafe leaves.forEach { unsafe X509_free($0) }
        unsafe protocols.deallocate()
    }

    /// Context in which every session begins; it has the first pair.
    var first: OpaquePointer { unsafe contexts[0] }

    /// Installs the callbacks. They find the server context through the session, which has it until its handshake is done.
    private static func listen(_ contexts: [OpaquePointer]) {
        unsafe tls_on_server_name(contexts[0]) { session, _, _ in
            guard let session = unsafe session, let server = unsafe TLSPort.server(of: session) else {
                return SSL_TLSEXT_ERR_NOACK
            }
            return unsafe server.choose(session)
        }
        unsafe TLSTicketKeys.listen(contexts[0])
        // swift-format-ignore
        for unsafe context in unsafe contexts {
            unsafe SSL_CTX_set_alpn_select_cb(
                context,
                { session, chosen, count, offered, offeredCount, _ in
                    guard let session = unsafe session, let server = unsafe TLSPort.server(of: session) else {
                        return SSL_TLSEXT_ERR_ALERT_FATAL
                    }
                    return unsafe TLSProtocols.select(chosen, count, server.protocols, offered, offeredCount)
                }, nil)
        }
    }

    /// Selects the pair for the client's SNI.
    private func choose(_ session: OpaquePointer) -> Int32 {
        guard let name = unsafe SSL_get_servername(session, TLSEXT_NAMETYPE_host_name) else {
            return SSL_TLSEXT_ERR_NOACK
        }
        var count = unsafe strlen(name)
        // Some clients send the root's dot (RFC 6066, 3), which certificates do not have.
        if unsafe count > 1 && name[count - 1] == CChar(bitPattern: UInt8(ascii: ".")) { count -= 1 }
        // An exact name precedes a wildcard, whatever the order of the pairs.
        let flags = UInt32(tls_host_flags())
        for flags in [flags | UInt32(tls_host_flag_exact()), flags] {
            for unsafe(index, leaf) in unsafe leaves.enumerated() {
                guard unsafe X509_check_host(leaf, name, count, flags, nil) == 1 else { continue }
                if index > 0 { unsafe SSL_set_SSL_CTX(session, contexts[index]) }
                return SSL_TLSEXT_ERR_OK
            }
        }
        return SSL_TLSEXT_ERR_NOACK
    }

    private static func context(
        _ certificate: borrowing TLSCertificate, _ pair: TLSCertificatePair, _ clients: TLSClientAuthority?
    ) throws(TLSFault) -> OpaquePointer {
        guard let context = unsafe SSL_CTX_new(TLS_server_method()) else { throw TLSFault(TLSErrors.takeText()) }
        TLSErrors.clear()
        unsafe TLSProtocols.configure(context)
        unsafe tls_prefer_own_ciphers(context)
        unsafe tls_set_session_cache_off(context)
        unsafe SSL_CTX_set_timeout(context, 7200)
        // Clients keep the latest, and get another with each resumption. Each costs the handshake some 20 µs.
        unsafe SSL_CTX_set_num_tickets(context, 1)
        let name = Array("tollgate".utf8)
        unsafe SSL_CTX_set_session_id_context(context, name, UInt32(name.count))
        var works = unsafe SSL_CTX_use_certificate(context, certificate.leaf) == 1
        // swift-format-ignore
        for unsafe link in unsafe certificate.chain where works { works = unsafe tls_add_chain(context, link) == 1 }
        works = unsafe works && SSL_CTX_use_PrivateKey(context, certificate.key) == 1
        if let clients { works = unsafe works && clients.ask(context) }
        guard works else {
            unsafe SSL_CTX_free(context)
            throw TLSFault("the certificate in \(pair.certificate) cannot serve: \(TLSErrors.takeText())")
        }
        return unsafe context
    }
}
