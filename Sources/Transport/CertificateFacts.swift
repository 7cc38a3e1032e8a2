import COpenSSL
import Glibc
import System
package import Wire

/// Facts about a server certificate and the chain behind it in a PEM file, for a look from outside.
package struct CertificateFacts: Equatable, Sendable {
    package var path: String
    package var startsAt: WallTime
    package var expiresAt: WallTime
    /// Whether it is for the host that was asked about.
    package var isForHost: Bool
    /// Why the file's chain does not lead to a CA that this system trusts; nil if it does. An expired certificate is none.
    package var chainFault: String?

    package init(path: String, startsAt: WallTime, expiresAt: WallTime, isForHost: Bool, chainFault: String?) {
        self.path = path
        self.startsAt = startsAt
        self.expiresAt = expiresAt
        self.isForHost = isForHost
        self.chainFault = chainFault
    }

    /// Reads the file; `host` is a name or an address. Blocks.
    package init(of path: String, host: String) throws(TLSFault) {
        let certificates = try unsafe TLSCertificate.certificates(path)
        defer { unsafe certificates.forEach { unsafe X509_free($0) } }
        guard let leaf = unsafe certificates.first else {
            throw TLSFault("\(path) holds no certificate", right: "it should be PEM text with -----BEGIN CERTIFICATE-----")
        }
        unsafe self.init(
            path: path, startsAt: Self.time(X509_get0_notBefore(leaf)), expiresAt: Self.time(X509_get0_notAfter(leaf)),
            isForHost: Self.isFor(host, leaf), chainFault: Self.chainFault(leaf, Array(certificates.dropFirst())))
    }

    private static func isFor(_ host: String, _ leaf: OpaquePointer) -> Bool {
        if let address = Resolver.numeric(host) { return unsafe X509_check_ip_asc(leaf, address.text, 0) == 1 }
        return unsafe X509_check_host(leaf, host, host.utf8.count, UInt32(tls_host_flags()), nil) == 1
    }

    private static func chainFault(_ leaf: OpaquePointer, _ chain: [OpaquePointer]) -> String? {
        guard let store = unsafe X509_STORE_new(), let context = unsafe X509_STORE_CTX_new() else { return "OpenSSL has no memory" }
        defer {
            unsafe X509_STORE_CTX_free(context)
            unsafe X509_STORE_free(store)
            TLSErrors.clear()
        }
        // Of the whole chain, expiry is judged by its leaf: intermediates are renewed with it.
        guard unsafe X509_STORE_set_default_paths(store) == 1, unsafe X509_STORE_set_flags(store, UInt(X509_V_FLAG_NO_CHECK_TIME)) == 1,
            unsafe X509_STORE_CTX_init(context, store, leaf, nil) == 1
        else { return "the system's root certificates cannot be read" }
        let untrusted = unsafe tls_stack_new()
        defer { unsafe tls_stack_free(untrusted) }
        // swift-format-ignore
        for unsafe link in unsafe chain { _ = unsafe tls_stack_push(untrusted, link) }
        unsafe X509_STORE_CTX_set0_untrusted(context, untrusted)
        guard unsafe X509_verify_cert(context) != 1 else { return nil }
        return unsafe String(cString: X509_verify_cert_error_string(Int(X509_STORE_CTX_get_error(context))))
    }

    private static func time(_ time: UnsafePointer<ASN1_TIME>?) -> WallTime {
        var parts = unsafe tm()
        guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return WallTime(seconds: 0) }
        return unsafe WallTime(seconds: Int64(timegm(&parts)))
    }
}
