import COpenSSL
import System
import Wire

/// Client side TLS configuration; servers are always verified. Made once, shared by all threads.
@safe
package final class TLSClientContext: Sendable {
    // OpenSSL counts references to a context, and any thread may make sessions of it; it does not change after init.
    nonisolated(unsafe) let context: OpaquePointer

    /// Problem with the validity period of the certificate that servers are shown, if any.
    package let warning: String?

    /// Verifies by the system's roots, or only by those in the PEM file `authorityFile`. Shows servers that ask the certificate of `pair`.
    package init(
        authorityFile: String? = nil, pair: TLSCertificatePair? = nil, protocols: [String] = ["http/1.1"]
    ) throws(TLSFault) {
        guard let context = unsafe SSL_CTX_new(TLS_client_method()) else { throw TLSFault(TLSErrors.takeText()) }
        unsafe self.context = unsafe context
        var warning: String?
        if let pair {
            do throws(TLSFault) {
                warning = try unsafe Self.show(pair, context)
            } catch {
                unsafe SSL_CTX_free(context)
                throw error
            }
        }
        self.warning = warning
        TLSErrors.clear()
        unsafe TLSProtocols.configure(context)
        unsafe tls_set_session_cache_off(context)
        unsafe SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        let names = unsafe TLSProtocols.encode(protocols)
        _ = unsafe SSL_CTX_set_alpn_protos(context, names.baseAddress, UInt32(names.count))
        unsafe names.deallocate()
        if let authorityFile {
            // Read first, for a better error message about a missing file.
            do throws(SystemFault) {
                _ = try FileBytes.read(authorityFile, limit: 16 << 20)
            } catch {
                throw TLSFault(error.description)
            }
            guard unsafe SSL_CTX_load_verify_file(context, authorityFile) == 1 else {
                throw TLSFault(
                    "\(authorityFile) holds no authority's certificate (\(TLSErrors.takeText()))",
                    right: "it should be PEM text with -----BEGIN CERTIFICATE-----")
            }
        } else if unsafe SSL_CTX_set_default_verify_paths(context) != 1 {
            throw TLSFault("the system's root certificates cannot be read: \(TLSErrors.takeText())")
        }
    }

    private static func show(_ pair: TLSCertificatePair, _ context: OpaquePointer) throws(TLSFault) -> String? {
        let certificate = try TLSCertificate.read(pair, now: EventLoop.now().wall)
        guard unsafe certificate.install(in: context) else {
            throw TLSFault("the certificate in \(pair.certificate) cannot be shown: \(TLSErrors.takeText())")
        }
        return certificate.warning
    }

    deinit { unsafe SSL_CTX_free(context) }

    /// Sets the name or address that the certificate must be valid for.
    func expect(_ host: String, _ session: OpaquePointer) -> Bool {
        if let address = Resolver.numeric(host) {
            return unsafe X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), address.text) == 1
        }
        // Without the root's dot, as in certificates and SNI (RFC 6066, 3).
        let name = host.hasSuffix(".") ? String(host.dropLast()) : host
        unsafe SSL_set_hostflags(session, UInt32(tls_host_flags()))
        return unsafe SSL_set1_host(session, name) == 1 && tls_set_server_name(session, name) == 1
    }
}
