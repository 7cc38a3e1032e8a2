import COpenSSL
import Glibc
package import Wire

/// What a server offers: certificates by name, protocol versions and ciphers (Mozilla's "intermediate"), application
/// protocols. Made once, shared by all threads; a reload makes another, and sessions keep theirs.
@safe
package final class TLSServerContext: Sendable {
    /// Sentences about what works but should not stay: a certificate that has expired.
    package let warnings: [String]
    // OpenSSL counts references to a context and lets any thread make sessions of it; nothing here changes after init.
    private nonisolated(unsafe) let contexts: [OpaquePointer]
    private nonisolated(unsafe) let leaves: [OpaquePointer]
    private nonisolated(unsafe) let protocols: UnsafeMutableBufferPointer<UInt8>

    /// The first pair answers where no pair's names fit. `protocols` are offered by ALPN, best first. With `previous`,
    /// sessions that began under it can be resumed.
    package init(
        pairs: [TLSCertificatePair], protocols: [String] = ["http/1.1"], now: WallTime,
        resuming previous: TLSServerContext? = nil
    ) throws(TLSFault) {
        guard !pairs.isEmpty else { throw TLSFault("TLS needs a certificate and its key") }
        var contexts: [OpaquePointer] = unsafe []
        var leaves: [OpaquePointer] = unsafe []
        var warnings: [String] = []
        var fault: TLSFault?
        for pair in pairs where fault == nil {
            do throws(TLSFault) {
                let certificate = try TLSCertificate.read(pair, now: now)
                unsafe contexts.append(try Self.context(certificate, pair))
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
        if let previous { unsafe Self.copyTicketKeys(from: previous.first, to: contexts[0]) }
        listen()
    }

    deinit {
        unsafe contexts.forEach { unsafe SSL_CTX_free($0) }
        unsafe leaves.forEach { unsafe X509_free($0) }
        unsafe protocols.deallocate()
    }

    /// Where every session begins: it holds the ticket keys, and the first pair.
    var first: OpaquePointer { unsafe contexts[0] }

    /// The callbacks hold this object unretained: a session keeps it until its handshake is over.
    private func listen() {
        let me = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe tls_on_server_name(
            first,
            { session, _, argument in
                guard let session = unsafe session, let argument = unsafe argument else { return SSL_TLSEXT_ERR_NOACK }
                return unsafe Unmanaged<TLSServerContext>.fromOpaque(argument).takeUnretainedValue().choose(session)
            }, me)
        for unsafe context in unsafe contexts {
            unsafe SSL_CTX_set_alpn_select_cb(
                context,
                { _, chosen, count, offered, offeredCount, argument in
                    guard let argument = unsafe argument else { return SSL_TLSEXT_ERR_ALERT_FATAL }
                    let mine = unsafe Unmanaged<TLSServerContext>.fromOpaque(argument).takeUnretainedValue().protocols
                    return unsafe TLSProtocols.select(chosen, count, mine, offered, offeredCount)
                }, me)
        }
    }

    /// Gives the session the pair for the name that the client asked for.
    private func choose(_ session: OpaquePointer) -> Int32 {
        guard let name = unsafe SSL_get_servername(session, TLSEXT_NAMETYPE_host_name) else {
            return SSL_TLSEXT_ERR_NOACK
        }
        let count = unsafe strlen(name)
        // An exact name goes before a wildcard, whatever the order of the pairs.
        let flags = UInt32(tls_host_flags())
        for flags in [flags | UInt32(tls_host_flag_exact()), flags] {
            for unsafe (index, leaf) in unsafe leaves.enumerated() {
                guard unsafe X509_check_host(leaf, name, count, flags, nil) == 1 else { continue }
                if index > 0 { unsafe SSL_set_SSL_CTX(session, contexts[index]) }
                return SSL_TLSEXT_ERR_OK
            }
        }
        return SSL_TLSEXT_ERR_NOACK
    }

    private static func context(_ certificate: borrowing TLSCertificate, _ pair: TLSCertificatePair) throws(TLSFault)
        -> OpaquePointer
    {
        guard let context = unsafe SSL_CTX_new(TLS_server_method()) else { throw TLSFault(TLSErrors.takeText()) }
        TLSErrors.clear()
        unsafe TLSProtocols.configure(context)
        unsafe tls_prefer_own_ciphers(context)
        unsafe tls_set_session_cache_off(context)
        unsafe SSL_CTX_set_timeout(context, 7200)
        let name = Array("tollgate".utf8)
        unsafe SSL_CTX_set_session_id_context(context, name, UInt32(name.count))
        var works = unsafe SSL_CTX_use_certificate(context, certificate.leaf) == 1
        for unsafe link in unsafe certificate.chain where works { works = unsafe tls_add_chain(context, link) == 1 }
        works = unsafe works && SSL_CTX_use_PrivateKey(context, certificate.key) == 1
        guard works else {
            unsafe SSL_CTX_free(context)
            throw TLSFault("the certificate in \(pair.certificate) cannot serve: \(TLSErrors.takeText())")
        }
        return unsafe context
    }

    private static func copyTicketKeys(from old: OpaquePointer, to new: OpaquePointer) {
        var keys = [UInt8](repeating: 0, count: 80)
        if unsafe tls_get_ticket_keys(old, &keys, keys.count) == 1 {
            _ = unsafe tls_set_ticket_keys(new, &keys, keys.count)
        }
        unsafe OPENSSL_cleanse(&keys, keys.count)
    }
}
