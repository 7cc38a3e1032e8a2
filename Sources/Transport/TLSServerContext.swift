import COpenSSL
import Glibc
package import Wire

/// Server side TLS configuration: certificates by name, Mozilla's "intermediate" versions and ciphers, application
/// protocols. Made once, shared by all threads; a reload makes another, and open sessions keep theirs.
@safe
package final class TLSServerContext: Sendable {
    /// Sentences about problems that do not prevent serving, such as an expired certificate.
    package let warnings: [String]
    /// Those of files, and those that were issued to this gateway.
    private let files: [TLSServerEntry]
    private let issued: [TLSServerEntry]
    /// Certificates that respond to challenges under way, by the server's name that is asked for.
    private let challenges: [String: TLSServerEntry]
    /// All certificates. Those for addresses come first: a client that wants one sends no SNI.
    private let certificates: [TLSServerEntry]
    /// Begins sessions: the first certificate, or none.
    private let beginning: TLSServerEntry
    /// Whether handshakes for names that no certificate has are refused.
    private let refusesOtherNames: Bool
    // Never changes after init.
    private nonisolated(unsafe) let protocols: UnsafeMutableBufferPointer<UInt8>
    let tickets: TLSTicketKeys
    /// The lists of revoked client certificates.
    package var revocationLists: [TLSRevocationList] { clients?.lists ?? [] }
    /// Trust anchors for client certificates; nil if none are requested.
    let clients: TLSClientAuthority?

    /// The first pair is the default if no pair matches the client's SNI. `protocols` are offered by ALPN, best first. With
    /// a `clientAuthority`, client certificates are requested, and looked up in `revocationLists`. With `previous`, its
    /// sessions can be resumed, unless it verified client certificates differently. With `refusesOtherNames`, handshakes for names that no
    /// certificate has are refused, and there may be no pair. `ticketKeys` are those that gateways share.
    package convenience init(
        pairs: [TLSCertificatePair], clientAuthority: TLSAuthorityFile? = nil, revocationLists: [TLSRevocationFile] = [],
        protocols: [String] = ["http/1.1"], now: WallTime, refusesOtherNames: Bool = false, resuming previous: TLSServerContext? = nil,
        ticketKeys: [[UInt8]] = []
    ) throws(TLSFault) {
        guard !pairs.isEmpty || refusesOtherNames else { throw TLSFault("TLS needs a certificate and its key") }
        var clients: TLSClientAuthority?
        if let clientAuthority { clients = try TLSClientAuthority(clientAuthority, lists: revocationLists) }
        let resumes = previous.map { $0.clients?.fingerprint == clients?.fingerprint } ?? false
        var files: [TLSServerEntry] = []
        for pair in pairs { files.append(try TLSServerEntry(pair, clients, now: now)) }
        let tickets = if resumes, let previous { previous.tickets } else { try TLSTicketKeys() }
        let beginning = if let first = files.first { first } else { try TLSServerEntry(bareFor: clients) }
        unsafe self.init(
            files: files, clients: clients, protocols: TLSProtocols.encode(protocols),
            refusesOtherNames: refusesOtherNames,
            tickets: tickets.sharing(clients == nil ? ticketKeys : []), beginning: beginning)
    }

    /// Takes ownership of `protocols`.
    @unsafe private init(
        files: [TLSServerEntry], issued: [TLSServerEntry] = [], challenges: [String: TLSServerEntry] = [:], clients: TLSClientAuthority?,
        protocols: UnsafeMutableBufferPointer<UInt8>, refusesOtherNames: Bool, tickets: TLSTicketKeys,
        beginning: TLSServerEntry
    ) {
        (self.files, self.issued, self.challenges, self.clients) = (files, issued, challenges, clients)
        (self.refusesOtherNames, self.tickets) = (refusesOtherNames, tickets)
        unsafe self.protocols = unsafe protocols
        certificates = issued.filter(\.isForAddress) + files + issued.filter { !$0.isForAddress }
        self.beginning = certificates.first ?? beginning
        warnings = (clients?.warnings ?? []) + certificates.compactMap(\.warning)
    }

    private func copy(
        issued: [TLSServerEntry]? = nil, challenges: [String: TLSServerEntry]? = nil, tickets: TLSTicketKeys? = nil,
        beginning: TLSServerEntry? = nil
    ) -> TLSServerContext {
        let protocols = unsafe UnsafeMutableBufferPointer<UInt8>.allocate(capacity: self.protocols.count)
        _ = unsafe protocols.initialize(fromContentsOf: self.protocols)
        return unsafe TLSServerContext(
            files: files, issued: issued ?? self.issued, challenges: challenges ?? self.challenges, clients: clients,
            protocols: protocols, refusesOtherNames: refusesOtherNames, tickets: tickets ?? self.tickets,
            beginning: beginning ?? self.beginning)
    }

    /// The lists in these files, and warnings about them.
    package static func revocationLists(
        _ files: [TLSRevocationFile], of authority: TLSAuthorityFile
    ) throws(TLSFault) -> (lists: [TLSRevocationList], warnings: [String]) {
        let clients = try TLSClientAuthority(authority, lists: files)
        return (clients.lists, clients.warnings)
    }

    /// Bytes of a ticket key that gateways share.
    package static var ticketKeyLength: Int { TLSTicketKeys.sharedLength }

    /// The same configuration with other ticket keys of all gateways. Where client certificates are asked for, there are none: with such a
    /// key tickets could be made that claim one.
    package func sharing(_ ticketKeys: [[UInt8]]) -> TLSServerContext { copy(tickets: tickets.sharing(clients == nil ? ticketKeys : [])) }

    /// The same configuration with a new key for session tickets. Tickets of the current key stay valid, those of the
    /// previous one do not.
    package func withNewTicketKey() throws(TLSFault) -> TLSServerContext { copy(tickets: try tickets.rotated()) }

    /// The same files with these issued certificates and responses to challenges, by the server's name that is asked for, in place of the
    /// former ones; those that cannot serve are left out, and the first of their faults is returned.
    package func with(
        issued pairs: [TLSCertificatePair], challenges responses: [String: TLSCertificatePair], now: WallTime
    ) throws(TLSFault) -> (context: TLSServerContext, fault: TLSFault?) {
        var fault: TLSFault?
        var issued: [TLSServerEntry] = []
        for pair in pairs {
            do throws(TLSFault) { issued.append(try TLSServerEntry(pair, clients, now: now)) } catch { fault = fault ?? error }
        }
        var challenges: [String: TLSServerEntry] = [:]
        for (name, pair) in responses {
            do throws(TLSFault) {
                challenges[name] = try TLSServerEntry(pair, nil, now: now, isChallenge: true)
            } catch {
                fault = fault ?? error
            }
        }
        let beginning = if let first = files.first { first } else { try TLSServerEntry(bareFor: clients) }
        return (copy(issued: issued, challenges: challenges, beginning: beginning), fault)
    }

    deinit { unsafe protocols.deallocate() }

    /// Context in which every session begins; it has the first certificate.
    var first: OpaquePointer { unsafe beginning.context }

    /// Selects the certificate for the client's SNI.
    fileprivate func choose(_ session: OpaquePointer, _ alert: UnsafeMutablePointer<Int32>?) -> Int32 {
        guard let name = unsafe SSL_get_servername(session, TLSEXT_NAMETYPE_host_name) else {
            // Every certificate is for some name, so the first is as good as another.
            return unsafe certificates.isEmpty ? refuse(alert) : SSL_TLSEXT_ERR_NOACK
        }
        var count = unsafe strlen(name)
        // Some clients send the root's dot (RFC 6066, 3), which certificates do not have.
        if unsafe count > 1 && name[count - 1] == CChar(bitPattern: UInt8(ascii: ".")) { count -= 1 }
        if unsafe !challenges.isEmpty && TLSPort.wantsChallenge(of: session) {
            let text = unsafe UnsafeRawBufferPointer(start: name, count: count).map(\.lowercasedASCII)
            guard let response = challenges[String(decoding: text, as: UTF8.self)] else { return unsafe refuse(alert) }
            unsafe SSL_set_SSL_CTX(session, response.context)
            unsafe SSL_set_num_tickets(session, 0)
            return SSL_TLSEXT_ERR_OK
        }
        // An exact name precedes a wildcard, whatever the order of the pairs.
        let flags = UInt32(tls_host_flags())
        for flags in [flags | UInt32(tls_host_flag_exact()), flags] {
            for entry in certificates {
                guard unsafe X509_check_host(entry.leaf, name, count, flags, nil) == 1 else { continue }
                if entry !== beginning { unsafe SSL_set_SSL_CTX(session, entry.context) }
                return SSL_TLSEXT_ERR_OK
            }
        }
        return unsafe refusesOtherNames ? refuse(alert) : SSL_TLSEXT_ERR_NOACK
    }

    /// Ends the handshake with the alert `unrecognized_name`.
    private func refuse(_ alert: UnsafeMutablePointer<Int32>?) -> Int32 {
        unsafe alert?.pointee = SSL_AD_UNRECOGNIZED_NAME
        return SSL_TLSEXT_ERR_ALERT_FATAL
    }

    fileprivate func selectProtocol(
        _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ count: UnsafeMutablePointer<UInt8>?, _ offered: UnsafePointer<UInt8>?,
        _ offeredCount: UInt32
    ) -> Int32 {
        unsafe TLSProtocols.select(chosen, count, protocols, offered, offeredCount)
    }
}

extension TLSCertificatePair {
    /// The same with the texts of its files as they are now, which can serve.
    package func read(now: WallTime) throws(TLSFault) -> Self {
        let pair = try withTexts()
        _ = try TLSServerEntry(pair, nil, now: now)
        return pair
    }
}

/// A certificate that serves: OpenSSL's context for it, and the certificate itself, to compare names with.
@safe
private final class TLSServerEntry: Sendable {
    // OpenSSL counts references to both, and any thread may make sessions of a context; nothing here changes after init.
    nonisolated(unsafe) let context: OpaquePointer
    nonisolated(unsafe) let leaf: OpaquePointer?
    let warning: String?
    let isForAddress: Bool

    /// A response to a challenge speaks the challenge's protocol alone.
    init(_ pair: TLSCertificatePair, _ clients: TLSClientAuthority?, now: WallTime, isChallenge: Bool = false) throws(TLSFault) {
        let certificate = try TLSCertificate.read(pair, now: now)
        let context = try unsafe Self.context(clients)
        var works = unsafe certificate.install(in: context)
        if let clients { works = unsafe works && clients.ask(context) }
        guard works else {
            unsafe SSL_CTX_free(context)
            throw TLSFault("the certificate in \(pair.certificate) cannot serve: \(TLSErrors.takeText())")
        }
        if isChallenge { unsafe tls_select_challenge(context) }
        unsafe X509_up_ref(certificate.leaf)
        unsafe self.context = unsafe context
        unsafe leaf = unsafe certificate.leaf
        (warning, isForAddress) = (certificate.warning, pair.isForAddress)
    }

    /// Without a certificate.
    init(bareFor clients: TLSClientAuthority?) throws(TLSFault) {
        unsafe context = unsafe try Self.context(clients)
        unsafe leaf = nil
        (warning, isForAddress) = (nil, false)
    }

    deinit {
        unsafe SSL_CTX_free(context)
        unsafe X509_free(leaf)
    }

    private static func context(_ clients: TLSClientAuthority?) throws(TLSFault) -> OpaquePointer {
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
        unsafe listen(context)
        return unsafe context
    }

    /// Installs the callbacks. They find the server context through the session, which has it until its handshake is done.
    private static func listen(_ context: OpaquePointer) {
        unsafe tls_on_server_name(context) { session, alert, _ in
            guard let session = unsafe session, let server = unsafe TLSPort.server(of: session) else {
                return SSL_TLSEXT_ERR_NOACK
            }
            return unsafe server.choose(session, alert)
        }
        unsafe TLSTicketKeys.listen(context)
        unsafe SSL_CTX_set_client_hello_cb(
            context,
            { session, _, _ in
                if let session = unsafe session { unsafe TLSPort.readHello(of: session) }
                return SSL_CLIENT_HELLO_SUCCESS
            }, nil)
        unsafe SSL_CTX_set_alpn_select_cb(
            context,
            { session, chosen, count, offered, offeredCount, _ in
                guard let session = unsafe session, let server = unsafe TLSPort.server(of: session) else {
                    return SSL_TLSEXT_ERR_ALERT_FATAL
                }
                return unsafe server.selectProtocol(chosen, count, offered, offeredCount)
            }, nil)
    }
}
