import COpenSSL
import Glibc
import Wire

/// The CAs of client certificates in one PEM file, whether roots or not.
@safe
package final class TLSAuthorityFile: Sendable {
    package let path: String
    // OpenSSL counts references; none changes after init.
    fileprivate nonisolated(unsafe) let certificates: [OpaquePointer]

    package init(_ path: String) throws(TLSFault) {
        let found = try unsafe TLSCertificate.certificates(path)
        guard unsafe !found.isEmpty else {
            throw TLSFault("\(path) holds no certificate", right: "it should be PEM text with -----BEGIN CERTIFICATE-----")
        }
        self.path = path
        unsafe certificates = unsafe found
    }

    deinit { unsafe certificates.forEach { unsafe X509_free($0) } }
}

/// The lists of revoked certificates in one file.
@safe
package final class TLSRevocationFile: Sendable {
    package let path: String
    // OpenSSL counts references; none changes after init.
    fileprivate nonisolated(unsafe) let lists: [OpaquePointer]

    package init(_ path: String) throws(TLSFault) {
        self.path = path
        unsafe lists = unsafe try TLSCertificate.revocationLists(path)
    }

    deinit { unsafe lists.forEach { unsafe X509_CRL_free($0) } }
}

/// Trust anchors for client certificates, with the lists that these are looked up in.
@safe
final class TLSClientAuthority: Sendable {
    /// Equal for equal files.
    let fingerprint: [UInt8]
    /// The lists of revoked certificates that they are looked up in.
    let lists: [TLSRevocationList]
    /// Sentences about lists that are of no use.
    let warnings: [String]
    private let file: TLSAuthorityFile
    private let listFiles: [TLSRevocationFile]
    // OpenSSL counts references to it; it does not change after init.
    private nonisolated(unsafe) let store: OpaquePointer

    init(_ file: TLSAuthorityFile, lists: [TLSRevocationFile]) throws(TLSFault) {
        guard let store = unsafe X509_STORE_new() else { throw TLSFault(TLSErrors.takeText()) }
        var fingerprint: [UInt8] = []
        // swift-format-ignore
        for unsafe certificate in unsafe file.certificates {
            _ = unsafe X509_STORE_add_cert(store, certificate)
            fingerprint += unsafe Self.digest(certificate)
        }
        // Trusts intermediate certificates too, without their root.
        _ = unsafe X509_STORE_set_flags(store, UInt(X509_V_FLAG_PARTIAL_CHAIN))
        (self.lists, warnings) = unsafe Self.add(lists, to: store, of: file.certificates)
        TLSErrors.clear()
        unsafe self.store = unsafe store
        (self.file, self.listFiles, self.fingerprint) = (file, lists, fingerprint)
    }

    deinit { unsafe X509_STORE_free(store) }

    /// Makes sessions of `context` request a certificate; false if out of memory.
    func ask(_ context: OpaquePointer) -> Bool {
        unsafe tls_judge_tickets(context, lists.isEmpty ? 0 : 1)
        // The names tell a client with several certificates which one to send.
        // swift-format-ignore
        for unsafe certificate in unsafe file.certificates where unsafe SSL_CTX_add_client_CA(context, certificate) != 1 { return false }
        return unsafe tls_ask_clients(context, store) == 1
    }

    /// Whether a list has the certificate that the client of this session has shown.
    func revokes(_ session: OpaquePointer) -> Bool {
        for file in listFiles {
            // swift-format-ignore
            for unsafe list in unsafe file.lists where unsafe tls_revokes(list, session) == 1 { return true }
        }
        return false
    }

    /// Has the store look certificates up in the lists of these files. Of several of one issuer OpenSSL uses the latest.
    private static func add(
        _ files: [TLSRevocationFile], to store: OpaquePointer, of authorities: [OpaquePointer]
    ) -> (lists: [TLSRevocationList], warnings: [String]) {
        var (found, warnings): ([TLSRevocationList], [String]) = ([], [])
        let names = unsafe authorities.map { unsafe TLSCertificate.name(X509_get_subject_name($0)) }
        for file in files {
            // swift-format-ignore
            for unsafe list in unsafe file.lists {
                let issuer = unsafe TLSCertificate.name(X509_CRL_get_issuer(list))
                let signers = unsafe zip(names, authorities).filter { unsafe $0.0 == issuer }
                let isSigned = unsafe signers.contains { unsafe X509_CRL_verify(list, X509_get0_pubkey($0.1)) == 1 }
                found.append(
                    TLSRevocationList(
                        file: file.path, issuer: issuer,
                        begins: unsafe TLSCertificate.time(X509_CRL_get0_lastUpdate(list)) ?? WallTime(microseconds: 0),
                        ends: unsafe TLSCertificate.time(X509_CRL_get0_nextUpdate(list)) ?? WallTime(microseconds: .max),
                        hasWrongSignature: names.contains(issuer) && !isSigned))
                if !names.contains(issuer) {
                    warnings.append("the list in \(file.path) is of \(issuer), which is none of the CAs: it holds for intermediate ones at most")
                }
                _ = unsafe X509_STORE_add_crl(store, list)
            }
        }
        if !files.isEmpty { unsafe tls_check_lists(store) }
        return (found, warnings)
    }

    private static func digest(_ certificate: OpaquePointer) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
        var count: UInt32 = 0
        _ = unsafe bytes.withUnsafeMutableBufferPointer { unsafe X509_digest(certificate, EVP_sha256(), $0.baseAddress, &count) }
        return Array(bytes.prefix(Int(count)))
    }
}

extension TLSSession {
    /// Whether the lists of `context` have the client's certificate.
    func isRevoked(by context: TLSServerContext) -> Bool { unsafe context.clients?.revokes(session) ?? false }

    /// DNS names and URIs of the verified client certificate; empty without one.
    package var clientNames: [String] {
        guard let certificate = unsafe SSL_get0_peer_certificate(session), unsafe SSL_get_verify_result(session) == X509_V_OK
        else { return [] }
        var names: [String] = []
        unsafe withUnsafeMutablePointer(to: &names) { names in
            unsafe tls_each_name(
                certificate,
                { bytes, count, isURI, names in
                    guard let bytes = unsafe bytes, count > 0 else { return }
                    let text = unsafe UnsafeBufferPointer(start: bytes, count: Int(count))
                    // A URI contains a colon and a host name does not, so neither can pass for the other.
                    guard unsafe text.contains(UInt8(ascii: ":")) == (isURI != 0) else { return }
                    let name = unsafe String(decoding: text, as: UTF8.self)
                    unsafe names?.assumingMemoryBound(to: [String].self).pointee.append(name)
                }, names)
        }
        return names
    }
}
